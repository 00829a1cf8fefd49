#!/usr/bin/env python3
"""`perigee bench text`: what it reports, and that a peer with other ids is an error. No rate is judged here.

Runs the program named by the variable PERIGEE in the current folder, which the caller makes empty.
"""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

PERIGEE = os.environ["PERIGEE"]
ROOT = Path(__file__).resolve().parent.parent.parent
VOCABULARY = str(ROOT / "models" / "nano")
TEXTS = ["english", "code", "chinese", "json", "base64", "long-line"]

# Speaks the protocol of tools/peers/tiktoken_rates.py and is always wrong.
WRONG_PEER = """
import json, sys
print(json.dumps({"version": "0.0", "load_seconds": 0.5}), flush=True)
while line := sys.stdin.buffer.readline():
    command, name, *size = line.split()
    if command == b"text":
        sys.stdin.buffer.read(int(size[0]))
        print(json.dumps({"characters": 1}), flush=True)
    else:
        print(json.dumps({"seconds": 0.1, "ids": 7, "sha256": ""}), flush=True)
"""


def bench_text(*arguments):
    command = [PERIGEE, "bench", "text", "--vocab", VOCABULARY, "--size", "5000", "--rounds", "1", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def has_tiktoken():
    return subprocess.run([sys.executable, "-c", "import tiktoken"], capture_output=True, check=False).returncode == 0


class Report(unittest.TestCase):
    def test_json_has_every_text_every_worst_case_and_every_work(self):
        result = bench_text("--json", "--threads", "2")
        self.assertEqual(result.returncode, 0, result.stderr)
        document = json.loads(result.stdout)
        self.assertEqual([row["name"] for row in document["texts"]], TEXTS)
        self.assertEqual([row["name"] for row in document["worst_cases"]],
                         ["letter", "spaces", "marks", "half-markers"])
        self.assertEqual(len(document["works"]), 4)
        self.assertIsNone(document["tiktoken_version"])
        for row in document["texts"]:
            self.assertGreaterEqual(row["bytes"], 5000)
            self.assertGreater(row["ids"], 500)
            self.assertGreater(row["bytes_per_second"], 0)
        for row in document["worst_cases"]:
            self.assertGreaterEqual(row["bytes"], 25000)

    def test_table_names_the_limit(self):
        result = bench_text()
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in (*TEXTS, "no peer", "of memory reading", "One core reads memory at"):
            self.assertIn(words, result.stdout)


class Peer(unittest.TestCase):
    def assert_fails(self, script_text, *words):
        Path("peer.py").write_text(script_text, encoding="utf-8")
        result = bench_text("--peer", sys.executable, "--peer-script", "peer.py", "--json")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        for word in words:
            self.assertIn(word, result.stderr)

    def test_other_ids_are_an_error_that_names_the_text(self):
        self.assert_fails(WRONG_PEER, "english", "7 from tiktoken 0.0", "differ")

    def test_a_peer_that_ends_at_once_is_named(self):
        self.assert_fails("raise SystemExit(3)", "peer.py", "ended before it answered")

    def test_a_peer_that_speaks_no_json_is_an_error(self):
        self.assert_fails("print('hello', flush=True)\nimport time\ntime.sleep(60)", "no usable")

    @unittest.skipUnless(has_tiktoken(), "this Python has no tiktoken")
    def test_tiktoken_gives_the_same_ids(self):
        script = str(ROOT / "tools" / "peers" / "tiktoken_rates.py")
        result = bench_text("--peer", sys.executable, "--peer-script", script, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        for row in json.loads(result.stdout)["texts"]:
            self.assertGreater(row["tiktoken_bytes_per_second"], 0)


if __name__ == "__main__":
    unittest.main()
