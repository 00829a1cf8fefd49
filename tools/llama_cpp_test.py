#!/usr/bin/env python3
"""Tests of peers/llama_cpp.py: what it reads and computes. They start no engine."""

import array
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
import llama_cpp  # noqa: E402  (the folder above must be known first)


class Logits(unittest.TestCase):
    def test_relative_l2_is_the_distance_by_the_expected_length(self):
        self.assertEqual(llama_cpp.relative_l2([[3.0, 4.0]], [[3.0, 4.0]]), 0)
        # Differences 0, 3, 0 and 4 have length 5; the expected values 1, 1, 7 and 7 have length 10.
        self.assertEqual(llama_cpp.relative_l2([[1.0, 4.0], [7.0, 11.0]], [[1.0, 1.0], [7.0, 7.0]]), 0.5)

    def test_rows_of_another_shape_are_refused(self):
        with self.assertRaises(ValueError):
            llama_cpp.relative_l2([[1.0]], [[1.0], [2.0]])
        with self.assertRaises(ValueError):
            llama_cpp.relative_l2([[1.0]], [[1.0, 2.0]])

    def test_the_same_choice_is_counted_by_position(self):
        rows, expected = [[0.0, 2.0], [5.0, 1.0], [1.0, 2.0]], [[1.0, 9.0], [0.0, 1.0], [3.0, 4.0]]
        self.assertEqual(llama_cpp.same_choice(rows, expected), 2 / 3)

    def test_logits_are_found_by_name_in_a_safetensors_file(self):
        other, logits = array.array("f", [9, 9]), array.array("f", [1, 2, 3, 4, 5, 6])
        header = json.dumps({"__metadata__": {"backend": "x"},
                             "inner": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                             "logits": {"dtype": "F32", "shape": [2, 3], "data_offsets": [8, 32]}}).encode()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "logits.safetensors"
            path.write_bytes(len(header).to_bytes(8, "little") + header + other.tobytes() + logits.tobytes())
            self.assertEqual([list(row) for row in llama_cpp.read_logits(path)], [[1, 2, 3], [4, 5, 6]])


def letters(text):
    """A tokenizer with one id a letter, but two for a y at the end."""
    pieces = [*text, ""] if text.endswith("y") else list(text)
    return {"ids": [ord(piece) if piece else 0 for piece in pieces], "pieces": pieces}


class Prompts(unittest.TestCase):
    def test_a_prompt_has_exactly_the_wanted_ids(self):
        prompt = llama_cpp.prompt_of(letters, "abcd", 3)
        self.assertEqual((prompt.text, prompt.ids), ("abc", [97, 98, 99]))

    def test_a_part_that_has_other_ids_alone_is_passed_over(self):
        self.assertEqual(llama_cpp.prompt_of(letters, "aybc", 2).text, "yb")

    def test_a_text_that_is_too_short_is_refused(self):
        with self.assertRaises(SystemExit):
            llama_cpp.prompt_of(letters, "ab", 3)


class CpuTime(unittest.TestCase):
    def test_values_between_readings_are_on_a_line(self):
        self.assertEqual(llama_cpp.interpolated([1, 2, 4], [10, 20, 60], 3), 40)
        self.assertEqual(llama_cpp.interpolated([1, 2, 4], [10, 20, 60], 2), 20)

    def test_beyond_the_readings_nothing_is_made_up(self):
        self.assertEqual(llama_cpp.interpolated([1, 2], [10, 20], 0), 10)
        self.assertEqual(llama_cpp.interpolated([1, 2], [10, 20], 9), 20)

    def test_spans_lie_side_by_side_before_the_end(self):
        spans = {"load": 7, "prompt": 3, "token": 2}  # the prompt from 5 to 8, the tokens until 10
        cpu = llama_cpp.cpu_of_spans(lambda moment: moment ** 2, 10, spans)
        self.assertEqual(cpu, {"load_cpu": 25, "prompt_cpu": 39, "token_cpu": 36})

    def test_a_process_that_computes_uses_what_it_says(self):
        program = """if True:
            import json, time
            time.sleep(0.2)
            begin, cpu = time.monotonic(), time.process_time()
            while time.process_time() - cpu < 0.2: pass
            print(json.dumps({"prompt": time.monotonic() - begin}), flush=True)
            while time.process_time() - cpu < 0.4: pass"""
        result, _ = llama_cpp.measured([sys.executable, "-c", program],
                                       lambda report: {"load": 0, "prompt": report["prompt"], "token": 0})
        self.assertAlmostEqual(result["prompt_cpu"], 0.2, delta=0.05)


def a_round(prompt, token):
    def run(scale):
        return {"load": 2.0, "prompt": scale * prompt, "token": token, "load_cpu": 1.0,
                "prompt_cpu": scale * prompt / 2, "token_cpu": token / 4, "memory": 5e9,
                "tokens": 2 * token}

    return {64: run(1), 512: run(4)}


class Summary(unittest.TestCase):
    def test_rates_are_tokens_by_seconds(self):
        summary = llama_cpp.summary([a_round(4, 5)], [64, 512])
        self.assertEqual(summary["prompt of 64, tokens/s"], 16)
        self.assertEqual(summary["prompt of 512, tokens/s"], 32)
        self.assertEqual(summary["decode behind 64, tokens/s"], 2)
        self.assertEqual(summary["prompt of 512, tokens a CPU second"], 64)
        self.assertEqual(summary["decode behind 64, tokens a CPU second"], 8)
        self.assertEqual((summary["load, s"], summary["load, CPU s"], summary["largest memory, GB"]), (2, 1, 5))

    def test_medians_are_of_rates(self):
        rounds = [a_round(1, 1), a_round(2, 1), a_round(64, 1)]
        self.assertEqual(llama_cpp.summary(rounds, [64, 512])["prompt of 64, tokens/s"], 32)

    def test_without_tokens_nothing_is_said_of_decoding(self):
        self.assertFalse([name for name in llama_cpp.summary([a_round(1, 0)], [64]) if "decode" in name])

    def test_the_table_has_the_ratio_of_the_first_engine_to_the_second(self):
        table = llama_cpp.rate_table({"A": {"load, s": 3.0, "none": 1.0}, "B": {"load, s": 2.0, "none": 0.0}})
        self.assertEqual(table.splitlines()[2:], ["| load, s | 3 | 2 | 1.50 |", "| none | 1 | 0 |  |"])


if __name__ == "__main__":
    unittest.main()
