#!/usr/bin/env python3
"""What every command promises as a process: exit status, which stream speaks, one sentence for an error, signals.

Runs the program named by the variable PERIGEE in the current folder, which the caller makes empty.
"""

import json
import os
import signal
import subprocess
import time
import unittest

PERIGEE = os.environ["PERIGEE"]
COMMANDS = ("convert", "verify", "inspect", "synth", "bench", "tokenize", "render", "parse", "parity")


def perigee(*arguments, **options):
    return subprocess.run([PERIGEE, *arguments], capture_output=True, text=True, timeout=120, check=False, **options)


class Help(unittest.TestCase):
    def test_without_a_command_shows_help_on_standard_error_and_fails(self):
        result = perigee()
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        for command in COMMANDS:
            self.assertIn(f"\n  {command} ", result.stderr)

    def test_help_is_success_on_standard_output(self):
        result = perigee("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("Examples:", result.stdout)
        self.assertIn("Exit status:", result.stdout)

    def test_every_command_has_help(self):
        for command in COMMANDS:
            result = perigee(command, "--help")
            self.assertEqual((result.returncode, result.stderr), (0, ""), command)
            self.assertIn(f"perigee {command}", result.stdout)

    def test_version_is_one_line(self):
        result = perigee("--version")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"\Aperigee \d+\.\d+\.\d+\n\Z")


class WrongUsage(unittest.TestCase):
    def assert_usage_error(self, *arguments, says=(), hint):
        result = perigee(*arguments)
        self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
        self.assertRegex(result.stderr, r"\Aerror: [^\n]*\n\Z")
        for words in (*says, f"see {hint} --help"):
            self.assertIn(words, result.stderr)

    def test_unknown_command(self):
        self.assert_usage_error("frobnicate", says=["frobnicate"], hint="perigee")

    def test_unknown_option(self):
        self.assert_usage_error("convert", "a", "b", "--frobnicate", says=["--frobnicate"], hint="perigee convert")

    def test_missing_argument(self):
        self.assert_usage_error("inspect", says=["CKPT"], hint="perigee inspect")

    def test_unknown_log_level(self):
        self.assert_usage_error("--log-level", "loud", says=["loud", "warning"], hint="perigee")

    def test_unknown_preset(self):
        self.assert_usage_error("synth", "out", "--preset", "gigantic", says=["gigantic"], hint="perigee synth")


class Errors(unittest.TestCase):
    def test_names_the_missing_folder_in_one_sentence(self):
        result = perigee("inspect", "no-such-folder")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertRegex(result.stderr, r"\Aerror: [^\n]*no-such-folder[^\n]*\n\Z")

    def test_json_errors_are_one_object_wherever_the_flag_stands(self):
        for arguments in (["--json-errors", "inspect", "nothing-here"], ["inspect", "nothing-here", "--json-errors"]):
            result = perigee(*arguments)
            self.assertEqual(result.returncode, 1)
            error = json.loads(result.stderr)
            self.assertEqual((error["event"], error["code"]), ("error", "not_found"))
            self.assertIn("nothing-here", error["message"])

    def test_json_errors_hold_for_wrong_usage_too(self):
        error = json.loads(perigee("--json-errors", "convert").stderr)
        self.assertEqual(error["code"], "usage")

    def test_a_file_name_that_is_no_utf8_is_survived(self):
        result = subprocess.run([PERIGEE, "--json-errors", "inspect", b"no-\xff-folder"], capture_output=True,
                                timeout=120, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("folder", json.loads(result.stderr.decode())["message"])


class Output(unittest.TestCase):
    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([PERIGEE, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120,
                                    check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("error: ", result.stderr)

    def test_a_reader_that_leaves_is_no_noise(self):
        read_end, write_end = os.pipe()
        os.close(read_end)
        result = subprocess.run([PERIGEE, "--version"], stdout=write_end, stderr=subprocess.PIPE, text=True,
                                timeout=120, check=False)
        os.close(write_end)
        self.assertEqual((result.returncode, result.stderr), (1, ""))


class Signals(unittest.TestCase):
    """convert --follow waits for shards of a download, so it can be interrupted at a known place."""

    @classmethod
    def setUpClass(cls):
        result = perigee("synth", "waiting", "--preset", "tiny")
        if result.returncode != 0:
            raise RuntimeError(result.stderr)
        shards = sorted(name for name in os.listdir("waiting") if name.endswith(".safetensors"))
        os.remove(os.path.join("waiting", shards[-1]))

    def interrupt(self, out, number):
        process = subprocess.Popen([PERIGEE, "convert", "waiting", out, "--follow"], stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while not os.path.isdir(f"{out}/.perigee") and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertIsNone(process.poll(), "it should be waiting")
        process.send_signal(number)
        sent = time.monotonic()
        _, errors = process.communicate(timeout=60)
        return process.returncode, errors, time.monotonic() - sent

    def test_interrupted_work_stops_at_once_and_says_how_to_go_on(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            status, errors, seconds = self.interrupt(f"out-{number}", number)
            self.assertEqual(status, 130, errors)
            self.assertIn("error: interrupted; run the same command again to resume\n", errors)
            self.assertLess(seconds, 10)
            self.assertFalse(os.path.exists(f"out-{number}/model.safetensors.index.json"))


if __name__ == "__main__":
    unittest.main()
