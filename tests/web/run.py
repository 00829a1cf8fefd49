#!/usr/bin/env python3
"""Runs the tests of this folder in an environment of their own, as tests/clients/run.py does it.

Usage: run.py PROGRAM FOLDER [PYTEST ARGUMENT...]    FOLDER keeps the environment; ./test uses build/web.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.append(str(HERE.parent / "clients"))
import run  # pylint: disable=wrong-import-position

if __name__ == "__main__":
    sys.exit(run.main(*sys.argv[1:], tests=HERE))
