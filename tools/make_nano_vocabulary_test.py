#!/usr/bin/env python3
"""The committed vocabulary is what its tool makes from the committed texts, and --check would notice if it were not."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
MODEL = TOOLS.parent / "models" / "nano"

try:
    import regex
except ImportError:
    regex = None


def make(*arguments):
    return subprocess.run([sys.executable, str(TOOLS / "make_nano_vocabulary.py"), *arguments],
                          capture_output=True, text=True, timeout=300, check=False)


@unittest.skipIf(regex is None, "this Python has no package regex")
class Check(unittest.TestCase):
    def test_committed_files_are_what_the_texts_give(self):
        result = make("--check")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_a_changed_vocabulary_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("tiktoken.model", "tokenizer_config.json"):
                shutil.copy(MODEL / name, folder)
            lines = (MODEL / "tiktoken.model").read_text(encoding="ascii").splitlines(keepends=True)
            Path(folder, "tiktoken.model").write_text("".join(lines[:-1]), encoding="ascii")
            result = make("--check", "--model", folder)
            self.assertEqual(result.returncode, 1)
            self.assertIn("tiktoken.model", result.stderr)

    def test_a_fresh_folder_receives_the_committed_files(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(make("--model", folder).returncode, 0)
            for name in ("tiktoken.model", "tokenizer_config.json"):
                self.assertEqual(Path(folder, name).read_bytes(), (MODEL / name).read_bytes())


if __name__ == "__main__":
    unittest.main()
