#!/usr/bin/env python3
"""What `perigee parity block` promises as a process: one shard is enough, forms of output, exit codes.

Runs the program named by the variable PERIGEE in the current folder, which the caller makes empty.
"""

import json
import os
import shutil
import subprocess
import unittest
from pathlib import Path

PERIGEE = os.environ["PERIGEE"]
SHARD = Path("shard/model-00002-of-000007.safetensors")


def run(*arguments):
    return subprocess.run([PERIGEE, *map(str, arguments)], capture_output=True, timeout=120, check=False)


def setUpModule():
    for command in (("synth", "tiny"), ("convert", "tiny", "nvfp4")):
        made = run(*command)
        assert made.returncode == 0, made.stderr
    SHARD.parent.mkdir()
    for name in ("config.json", "model.safetensors.index.json", SHARD.name):
        shutil.copy(Path("tiny", name), SHARD.parent)


class ParityBlock(unittest.TestCase):
    def check(self, *arguments):
        return run("parity", "block", "--shard", SHARD, "--tokens", "3", *arguments)

    def test_one_shard_and_its_config_are_enough(self):
        result = self.check()
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        text = result.stdout.decode()
        for word in ("Layer 1 (KDA)", "nvfp4-modelopt, cast in memory", "nvfp4-compressed-tensors, cast in memory",
                     "reference", "gave the same bits", "block_sparse_moe.gate.weight"):
            self.assertIn(word, text)
        self.assertNotIn("differs", text)

    def test_json_has_a_hash_for_each_form_and_backend(self):
        result = self.check("--against", "nvfp4", "--json")
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        report = json.loads(result.stdout)
        self.assertTrue(report["equal"])
        self.assertEqual(report["differences"], [])
        self.assertEqual(len({run["layer"] for run in report["runs"]}), 1)
        self.assertIn("nvfp4-modelopt, nvfp4", {run["form"] for run in report["runs"]})
        self.assertGreater(report["peak_memory_bytes"], 0)
        for fingerprint in report["fingerprints"]:
            self.assertRegex(fingerprint["xxh3_64"], r"\A[0-9a-f]{16}\Z")

    def test_an_altered_conversion_is_a_mismatch(self):
        shutil.copytree("nvfp4", "altered")
        shard = next(Path("altered").glob("model-00002-*"))
        data = bytearray(shard.read_bytes())
        header = int.from_bytes(data[:8], "little")
        chosen = json.loads(self.check("--json").stdout)["chosen_experts"][0]
        name = f"language_model.model.layers.1.block_sparse_moe.experts.{chosen}.w1.weight"
        begin, _ = json.loads(data[8 : 8 + header])[name]["data_offsets"]
        data[8 + header + begin] ^= 0x07
        shard.write_bytes(data)
        result = self.check("--against", "altered")
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"expert {chosen} w1 row 0 column 0", result.stderr.decode())
        self.assertIn("differs", result.stdout.decode())

    def test_errors_are_one_sentence(self):
        for arguments, status, word in (
            (("--shard", "absent.safetensors"), 1, "config.json"),
            (("--shard", "tiny/model-00001-of-000007.safetensors"), 1, "no routed experts"),
            (("--shard", SHARD, "--backend", "abacus"), 1, "abacus"),
            (("--shard", SHARD, "--tokens", "0"), 2, "--tokens"),
            ((), 2, "--shard"),
        ):
            result = run("parity", "block", *arguments)
            self.assertEqual((result.returncode, result.stdout), (status, b""), arguments)
            self.assertRegex(result.stderr.decode(), r"\Aerror: [^\n]*\n\Z")
            self.assertIn(word, result.stderr.decode())

    def test_one_run_alone_proves_nothing(self):
        result = run("parity", "block", "--shard", "nvfp4", "--backend", "reference", "--tokens", "1")
        self.assertEqual(result.returncode, 2)


if __name__ == "__main__":
    unittest.main()
