#!/usr/bin/env python3
"""`perigee doctor`, `bench machine`, `bench stream`, `inspect --plan`: what they report. No rate and no time is judged here.

Runs the program named by the variable PERIGEE in the current folder, which the caller makes empty.
"""

import json
import os
import subprocess
import unittest
from pathlib import Path

PERIGEE = os.environ["PERIGEE"]
EXPERTS = 3 * 8  # of the tiny model
LEVELS = ["ok", "warn", "fail"]


def perigee(*arguments, **variables):
    environment = {**os.environ, "XDG_CACHE_HOME": str(Path.cwd() / "cache"), **variables}
    return subprocess.run([PERIGEE, *arguments], capture_output=True, text=True, timeout=200, check=False, env=environment)


def setUpModule():
    made = perigee("synth", "tiny")
    assert made.returncode == 0, made.stderr


class Case(unittest.TestCase):
    def json_of(self, *arguments):
        result = perigee(*arguments, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def assert_error(self, status, words, *arguments):
        result = perigee(*arguments)
        self.assertEqual((result.returncode, result.stdout), (status, ""))
        self.assertIn(words, result.stderr)


class Doctor(Case):
    def test_the_worst_check_is_the_answer(self):
        result = perigee("doctor", "tiny", "--json")
        report = json.loads(result.stdout)
        levels = [check["level"] for check in report["checks"]]
        self.assertEqual(report["level"], max(levels, key=LEVELS.index))
        self.assertEqual(result.returncode, 1 if "fail" in levels else 0)
        for check in report["checks"]:
            self.assertEqual(check["level"] == "ok", check["advice"] == "", check)

    def test_text_names_every_check(self):
        text = perigee("doctor").stdout
        for check in json.loads(perigee("doctor", "--json").stdout)["checks"]:
            self.assertIn(check["name"], text)

    def test_nothing_to_look_at(self):
        self.assert_error(1, "is not a folder", "doctor", "absent")


class Machine(Case):
    ARGUMENTS = ["bench", "machine", "tiny", "--tiny", "--threads", "1"]

    def test_rates_are_kept_where_they_are_asked_for(self):
        printed = self.json_of(*self.ARGUMENTS, "--machine-rates", "kept/rates.json")
        self.assertEqual(json.loads(Path("kept/rates.json").read_text()), printed)
        self.assertEqual([rate["depth"] for rate in printed["drive"]["depths"]], [1, 2, 4])
        self.assertGreater(printed["mxfp4"]["one_token_bytes_per_second"], 0)

    def test_a_trial_does_not_replace_real_rates(self):
        self.json_of(*self.ARGUMENTS)
        self.assertFalse(Path("cache/perigee/machine.json").exists())

    def test_table(self):
        text = perigee(*self.ARGUMENTS).stdout
        for words in ("memory, read", "BF16 weights, one token", "drive, 4 at a time", "s/GB"):
            self.assertIn(words, text)


def rates_file(drive=1e9, memory=1e10):
    products = {"one_token_bytes_per_second": memory, "prompt_macs_per_second": 1e11}
    rates = {"version": 1, "backend": "avx2", "threads": 1, "memory_bytes_per_second": memory, "peaks": [], "bf16": products,
             "mxfp4": products, "drive": {"file": "x", "made": False, "direct": True, "io": "io_uring", "record_bytes": 1,
             "depths": [{"depth": 1, "bytes_per_second": drive, "cpu_seconds_per_gigabyte": 0.1}]}}
    Path("rates.json").write_text(json.dumps(rates))
    return "rates.json"


class Plan(Case):
    def plan(self, folder, *arguments):
        return self.json_of("inspect", folder, "--plan", "--no-rate", "--machine-rates", rates_file(), *arguments)["running"]

    def test_the_parts_make_up_the_memory(self):
        running = self.plan("tiny", "--ram", "1G", "--context", "256")
        memory = running["now"]["memory"]
        self.assertTrue(memory["resident"])
        self.assertEqual(sum(part["bytes"] for part in running["trunk"]), memory["trunk_bytes"])
        self.assertEqual(memory["trunk_bytes"], running["trunk_bytes"])  # what the conversion's plan counted
        self.assertEqual(memory["state_bytes"], running["state_bytes"] + 256 * running["cache_bytes_a_token"])
        self.assertEqual(running["experts"], EXPERTS)
        self.assertEqual(running["experts"] * running["one_expert_bytes"], running["expert_bytes"])
        self.assertEqual((running["now"]["hit_rate"], running["now"]["read_bytes_a_token"]), (1, 0))

    def test_less_memory_means_reading(self):
        everything = self.plan("tiny")
        ram = everything["least_ram_bytes"] + 5 * (everything["one_expert_bytes"] + 8192)
        running = self.plan("tiny", "--ram", str(ram))
        now = running["now"]
        self.assertFalse(now["memory"]["resident"])
        self.assertLess(now["memory"]["slots"], EXPERTS)
        self.assertLess(now["hit_rate"], 1)
        self.assertGreater(now["read_bytes_a_token"], 0)
        changes = {change["what"]: change for change in running["changes"]}
        self.assertLess(changes["one more drive"]["token_seconds"], now["token_seconds"])
        self.assertTrue(changes["all experts in memory"]["memory"]["resident"])

    def test_what_is_refused_says_so(self):
        running = self.plan("tiny", "--ram", "1M")
        self.assertIn("may be used", running["now"]["refused"])
        result = perigee("inspect", "tiny", "--plan", "--no-rate", "--ram", "1M")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("Refused: ", result.stdout)

    def test_no_gpu_is_the_only_one_there_is(self):
        self.assertEqual(self.plan("tiny", "--ram", "1G", "--vram", "0"), self.plan("tiny", "--ram", "1G"))

    def test_config_alone_is_enough(self):
        Path("config-only").mkdir(exist_ok=True)
        Path("config-only/config.json").write_bytes(Path("tiny/config.json").read_bytes())
        self.assertEqual(self.plan("config-only", "--ram", "1G")["trunk"], self.plan("tiny", "--ram", "1G")["trunk"])

    def test_a_store_is_planned_with_its_own_planes(self):
        made = perigee("pack", "tiny", "store", "--attention", "fp8")
        self.assertEqual(made.returncode, 3, made.stderr)
        before = {part["name"]: part for part in self.plan("tiny", "--ram", "1G")["trunk"]}
        after = {part["name"]: part for part in self.plan("store", "--ram", "1G")["trunk"]}
        self.assertEqual(after["attention"]["bytes"], before["attention"]["fp8_bytes"])
        self.assertEqual(after["shared"]["bytes"], before["shared"]["bytes"])

    def test_assumed_rates_are_labelled(self):
        result = perigee("inspect", "tiny", "--plan", "--no-rate")
        self.assertIn("Rates: ASSUMED", result.stdout)
        self.assertNotIn("ASSUMED, of", perigee("inspect", "tiny", "--plan", "--no-rate", "--machine-rates", rates_file()).stdout)

    def test_nonsense_is_refused(self):
        Path("broken.json").write_text("{}")
        self.assert_error(1, "broken.json", "inspect", "tiny", "--plan", "--no-rate", "--machine-rates", "broken.json")
        self.assert_error(2, "--plan", "inspect", "tiny", "--ram", "1G")
        self.assert_error(2, "computes on the processor", "inspect", "tiny", "--plan", "--no-rate", "--vram", "24G")
        Path("other.trace").write_text("perigee expert trace 1\n")
        self.assert_error(1, "other.trace", "inspect", "tiny", "--plan", "--no-rate", "--trace", "other.trace")


class Stream(Case):
    ARGUMENTS = ["bench", "stream", "tiny", "--threads", "1", "--limit-seconds", "0.01", "--tokens", "20"]

    def test_measured_beside_predicted(self):
        result = self.json_of(*self.ARGUMENTS, "--slots", "6", "--slots", "24")
        self.assertTrue(result["synthetic"])
        few, all_of_them = result["rows"]
        self.assertEqual((few["slots"], all_of_them["slots"]), (6, 24))
        self.assertGreater(few["step_bytes"], 0)
        self.assertGreater(few["predicted_step_bytes"], 0)
        self.assertGreater(few["limit_bytes_per_second"], 0)
        self.assertGreater(few["predicted_step_seconds"], 0)
        self.assertGreater(all_of_them["predicted_hit_rate"], few["predicted_hit_rate"])
        self.assertAlmostEqual(all_of_them["hit_rate"], all_of_them["predicted_hit_rate"], delta=0.1)

    def test_the_policy_replayed_is_the_policy_that_ran(self):
        for policy in ("lru", "least-stale", "popular"):
            row, = self.json_of(*self.ARGUMENTS, "--slots", "8", "--cache-policy", policy, "--no-multiply")["rows"]
            self.assertAlmostEqual(row["hit_rate"], row["predicted_hit_rate"], delta=0.1, msg=policy)

    def test_table_is_labelled(self):
        text = perigee(*self.ARGUMENTS, "--no-multiply").stdout
        for words in ("SYNTHETIC", "off by", "its limit", "nothing multiplied"):
            self.assertIn(words, text)

    def test_a_folder_without_a_model(self):
        self.assert_error(1, "config.json", "bench", "stream", "cache")


if __name__ == "__main__":
    unittest.main()
