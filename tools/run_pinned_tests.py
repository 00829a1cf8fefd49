#!/usr/bin/env python3
"""Runs a folder of tests that has a requirements.txt: makes an environment with its packages once, then calls pytest in it.

Usage: run_pinned_tests.py TESTS PROGRAM FOLDER [PYTEST ARGUMENT...]
FOLDER keeps the environment; ./test uses build/clients for tests/clients and build/web for tests/web.
Closes with "N passed, M failed, K skipped". Without a network it says so and skips all; any other failure fails.
"""

import hashlib
import os
import re
import subprocess
import sys
import venv
import xml.etree.ElementTree as ElementTree
from pathlib import Path

NO_NETWORK = re.compile(r"NewConnectionError|NameResolutionError|ConnectTimeoutError|Connection to \S+ timed out")
SECONDS = 800
# The rest of the machine's settings (proxies, keys of real services) is none of the clients' business.
KEPT_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS")


class NoNetwork(Exception):
    pass


def environment_in(folder, requirements):
    """The Python of an environment that has exactly the pinned packages; made anew when the pins change."""
    stamp, wanted = folder / "installed", hashlib.sha256(requirements.read_bytes()).hexdigest()
    python = folder / "bin" / "python"
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    venv.create(folder, clear=True, with_pip=True)
    command = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "-q", "-r", requirements]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if result.returncode != 0:
        if NO_NETWORK.search(result.stdout):
            raise NoNetwork
        sys.exit(f"{result.stdout}\nthe packages of {requirements.name} could not be installed\n0 passed, 1 failed")
    stamp.write_text(wanted)
    return python


def counts_of(report):
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    total = {key: sum(int(suite.get(key)) for suite in suites) for key in ("tests", "failures", "errors", "skipped")}
    failed = total["failures"] + total["errors"]
    return total["tests"] - failed - total["skipped"], failed, total["skipped"]


def main(tests, program, folder, *arguments):
    tests = Path(tests).resolve()
    try:
        python = environment_in(Path(folder).resolve(), tests / "requirements.txt")
    except NoNetwork:
        print("skipped: the Python packages cannot be installed; there is no network\n0 passed, 0 failed, 1 skipped")
        return 0
    report = Path(folder).resolve() / "report.xml"
    report.unlink(missing_ok=True)
    variables = {key: os.environ[key] for key in KEPT_VARIABLES if key in os.environ}
    variables |= {"PERIGEE": str(Path(program).resolve()), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", tests, *arguments]
    try:
        status = subprocess.run(command, env=variables, cwd=tests, timeout=SECONDS, check=False).returncode
    except subprocess.TimeoutExpired:
        print(f"stopped after {SECONDS} s")
        status = 1
    passed, failed, skipped = counts_of(report) if report.is_file() else (0, 1, 0)
    if status != 0 and failed == 0:
        failed = 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
