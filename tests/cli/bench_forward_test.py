#!/usr/bin/env python3
"""`perigee bench kernels, decode, prefill, model`: what they report. No rate is judged here.

Runs the program named by the variable PERIGEE in the current folder, which the caller makes empty.
"""

import json
import os
import subprocess
import unittest
from pathlib import Path

PERIGEE = os.environ["PERIGEE"]
ONE = ["--rounds", "1", "--threads", "1"]


def bench(*arguments):
    return subprocess.run([PERIGEE, "bench", *arguments], capture_output=True, text=True, timeout=300, check=False)


class Kernels(unittest.TestCase):
    ARGUMENTS = ["kernels", "--shape", "64x96", "--memory", "0.001", "--tokens", "1,3", *ONE]

    def test_json_has_a_row_for_every_format_backend_and_number_of_tokens(self):
        result = bench(*self.ARGUMENTS, "--reference", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        rates = json.loads(result.stdout)["rates"]
        backends = {row["backend"] for row in rates}
        self.assertIn("reference", backends)
        self.assertEqual(len(rates), 3 * 2 * len(backends))
        self.assertEqual({row["format"] for row in rates}, {"bf16", "mxfp4", "nvfp4"})
        for row in rates:
            self.assertGreater(row["bytes_per_second"], 0)
            self.assertGreater(row["limit_bytes_per_second"], 0)

    def test_table_names_limit_and_goal(self):
        result = bench(*self.ARGUMENTS, "--format", "nvfp4", "--backend", "reference")
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in ("matrix [64, 96] nvfp4", "reference", "limit GB/s", "measured GB/s", "of the limit", "goal"):
            self.assertIn(words, result.stdout)

    def assert_usage_error(self, words, *arguments):
        result = bench("kernels", *arguments)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn(words, result.stderr)

    def test_nonsense_is_refused(self):
        self.assert_usage_error("--shape 64", "--shape", "64")
        self.assert_usage_error("--shape 64x33", "--shape", "64x33")
        self.assert_usage_error("--shape 64x96x2", "--shape", "64x96x2")
        self.assert_usage_error("--memory 0 ", "--memory", "0")
        self.assert_usage_error("give more --memory", "--memory", "0.001")


class Decode(unittest.TestCase):
    ARGUMENTS = ["decode", "--preset", "tiny", "--memory", "0.004", "--context", "10", *ONE]

    def test_json_has_every_part(self):
        result = bench(*self.ARGUMENTS, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        document = json.loads(result.stdout)
        self.assertEqual([(part["name"], part["count"]) for part in document["parts"]],
                         [("KDA attention", 3), ("MLA attention", 1), ("dense FFN", 1), ("latent MoE", 3),
                          ("norms and residuals", 4), ("output head", 1)])
        self.assertAlmostEqual(document["token_seconds"] * document["tokens_per_second"], 1)

    def test_table_says_what_was_not_measured(self):
        result = bench(*self.ARGUMENTS, "--layers", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in ("all 4 layers and the head", "not measured", "tokens/s", "goal", "85.0 %"):
            self.assertIn(words, result.stdout)


class Prefill(unittest.TestCase):
    ARGUMENTS = ["prefill", "--preset", "tiny", "--memory", "0.004", "--tokens", "2,20", *ONE]

    def test_json_has_every_part_of_every_prompt(self):
        result = bench(*self.ARGUMENTS, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        document = json.loads(result.stdout)
        self.assertEqual([part["tokens"] for part in document["parts"]], [2] * 6 + [20] * 6)
        has_peer = document["onednn_version"] is not None
        for product in document["products"]:
            self.assertEqual(product["onednn_f32_macs_per_second"] is not None, has_peer)

    def test_table_has_a_column_for_the_peer(self):
        result = bench(*self.ARGUMENTS)
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in ("routed experts", "a KDA and an MLA layer", "oneDNN", "limit GMAC/s", "goal"):
            self.assertIn(words, result.stdout)


class Model(unittest.TestCase):
    def test_a_checkpoint_is_loaded_and_asked(self):
        made = subprocess.run([PERIGEE, "synth", "made", "--preset", "tiny"], capture_output=True, text=True,
                              timeout=300, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        arguments = ["model", "-m", "made", "--prompt", "20", "--tokens", "3", *ONE]
        result = bench(*arguments, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        document = json.loads(result.stdout)
        size = sum(path.stat().st_size for path in Path("made").glob("*.safetensors"))
        self.assertEqual(document["file_bytes"], size)
        self.assertLess(document["token_bytes"], size)
        for key in ("load_seconds", "first_token_seconds", "token_seconds", "tokens_per_second"):
            self.assertGreater(document[key], 0)
        table = bench(*arguments)
        for words in ("loading", "first token of a prompt of 20", "each further token", "of the limit"):
            self.assertIn(words, table.stdout)

    def test_a_folder_without_a_checkpoint_is_an_error(self):
        result = bench("model", "-m", "nowhere", *ONE)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("nowhere", result.stderr)


if __name__ == "__main__":
    unittest.main()
