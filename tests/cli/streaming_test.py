#!/usr/bin/env python3
"""What streaming of experts promises as a process: the same hash, the same answer, numbers, traces that can be replayed.

Runs the program named by the variable PERIGEE in the current folder, which the caller makes empty. The model is a tiny one
of random weights with a vocabulary of one token per byte.
"""

import base64
import json
import os
import pty
import shutil
import subprocess
import unittest
from pathlib import Path

PERIGEE = os.environ["PERIGEE"]
NANO = Path(__file__).resolve().parents[2] / "models" / "nano"
EXPERTS = 3 * 8  # of the tiny model


def run(*arguments):
    return subprocess.run([PERIGEE, *arguments], capture_output=True, timeout=120, check=False)


def setUpModule():
    lines = [base64.b64encode(bytes([i])) + b" %d\n" % i for i in range(256)]
    Path("bytes.tiktoken").write_bytes(b"".join(lines))
    made = run("synth", "tiny", "--vocab", "512")
    assert made.returncode == 0, made.stderr


def answer(*arguments, model="tiny"):
    return run("run", "-m", model, "--vocab", "bytes.tiktoken", "-p", "2+2?", "--raw", "--greedy", "--max-tokens", "12",
               *arguments)


class Streaming(unittest.TestCase):
    def json_of(self, result):
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return json.loads(result.stdout)

    def test_one_hash_however_experts_come(self):
        resident = self.json_of(answer("--json"))
        self.assertEqual(resident["experts"]["home"], "resident")
        ways = [(), ("--cache-policy", "lru"), ("--cache-policy", "least-stale"), ("--no-prefetch",), ("--threads", "1"),
                ("--verify-reads", "always")]
        for way in ways:
            streamed = self.json_of(answer("--json", "--experts", "streamed", *way))
            self.assertEqual(streamed["experts"]["home"], "streamed")
            self.assertEqual(streamed["logits_hash"], resident["logits_hash"], way)
            self.assertEqual(streamed["choices"], resident["choices"], way)

    def test_memory_decides_how_many_experts_stay(self):
        everything = self.json_of(answer("--json", "--experts", "streamed"))["experts"]
        self.assertEqual(everything["memory"]["slots"], EXPERTS)
        memory = everything["memory"]
        token = memory["activation_bytes"] // memory["prompt_chunk"]
        least = memory["trunk_bytes"] + memory["state_bytes"] + 16 * token
        few = least + 5 * memory["expert_bytes"] // EXPERTS
        tight = self.json_of(answer("--json", "--ram", str(few)))
        self.assertEqual(tight["experts"]["home"], "streamed")
        self.assertEqual(tight["experts"]["memory"]["slots"], 5)
        self.assertEqual(tight["logits_hash"], self.json_of(answer("--json"))["logits_hash"])
        hits = sum(tight["experts"]["hits"].values())
        self.assertEqual(tight["experts"]["asked"], hits + tight["experts"]["joined"] + tight["experts"]["misses"])
        refused = answer("--ram", str(least))
        self.assertEqual(refused.returncode, 1)
        self.assertIn(b"may be used", refused.stderr)

    def test_a_trace_is_replayed(self):
        answer("--experts", "streamed", "--trace", "routes.trace", "--usage", "popular.usage")
        trace = Path("routes.trace").read_text().splitlines()
        self.assertEqual(trace[1].split()[:2], ["4", "8"])
        self.assertTrue(all(len(line.split()) > 2 for line in trace[2:]))
        replayed = run("bench", "cache", "routes.trace", "--slots", "6", "--slots", "24", "--warm-up", "0",
                       "--usage", "popular.usage", "--json")
        rows = self.json_of(replayed)["rows"]
        self.assertEqual({row["slots"] for row in rows}, {6, 24})
        for row in rows:
            self.assertLessEqual(row["hit_rate_pool"], 1)
        by_policy = {row["policy"]: row for row in rows if row["slots"] == 6}
        self.assertLessEqual(by_policy["lru"]["hit_rate"], by_policy["ideal"]["hit_rate"])

    def test_usage_is_kept_from_run_to_run(self):
        Path("kept.usage").unlink(missing_ok=True)
        self.assertEqual(answer("--experts", "streamed", "--usage", "kept.usage").returncode, 0)
        first = Path("kept.usage").read_text()
        self.assertTrue(first.startswith("perigee expert usage 1\n4 layers 8 experts\n"))
        self.assertEqual(answer("--experts", "streamed", "--usage", "kept.usage").returncode, 0)
        self.assertNotEqual(Path("kept.usage").read_text(), first)
        Path("kept.usage").write_text("nonsense")
        broken = answer("--experts", "streamed", "--usage", "kept.usage")
        self.assertEqual(broken.returncode, 1)
        self.assertIn(b"kept.usage, line 1", broken.stderr)

    def test_a_recorded_trace_holds_what_was_foreseen(self):
        for number, home in enumerate(("resident", "streamed")):
            answer("--experts", home, "--trace", f"{home}.trace")
            steps = [line for line in Path(f"{home}.trace").read_text().splitlines()[2:] if line.split()[1] == "1"]
            foreseen = [line for line in steps if " | " in line]
            self.assertGreater(len(foreseen), len(steps) // 2, home)  # not for the first layer with experts
            if number == 0:
                first = foreseen
        self.assertEqual(foreseen, first)
        rows = self.json_of(run("bench", "cache", "streamed.trace", "--slots", "12", "--warm-up", "0", "--json"))["rows"]
        ahead = [row for row in rows if row["policy"] == "popular, reading ahead"]
        self.assertEqual(len(ahead), 1)
        self.assertGreater(ahead[0]["hit_rate_prefetch"], 0)

    def test_a_chat_says_what_an_answer_cost(self):
        reader, terminal = pty.openpty()
        command = [PERIGEE, "chat", str(NANO), "--greedy", "--thinking", "off", "--max-tokens", "8"]
        shown = []
        for home in ("streamed", "resident"):
            subprocess.run([*command, "--experts", home], input=b"Hello, Nano.\n", stdout=subprocess.PIPE, stderr=terminal,
                           timeout=120, check=True)
            os.write(terminal, b"END")
            text = b""
            while not text.endswith(b"END"):
                text += os.read(reader, 4096)
            shown.append(text.decode())
        os.close(terminal)
        os.close(reader)
        self.assertRegex(shown[0], r"[0-9.]+ tokens/s; a token: [0-9.]+ .?B of experts, [0-9]+% from memory, .* GB/s")
        self.assertNotIn("of experts", shown[1])

    def test_synthetic_routing_is_labelled(self):
        shown = run("bench", "cache", "--synthetic", "20", "--layers", "4", "--experts", "64", "--top-k", "4", "--slots", "30")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn(b"SYNTHETIC", shown.stdout)
        self.assertEqual(run("bench", "cache").returncode, 2)

    def test_a_store_gives_the_hash_of_its_checkpoint(self):
        self.assertEqual(run("pack", "tiny", "store").returncode, 0)
        resident = self.json_of(answer("--json"))
        for way in ((), ("--experts", "streamed",), ("--experts", "streamed", "--verify-reads", "always")):
            stored = self.json_of(answer("--json", *way, model="store"))
            self.assertEqual(stored["logits_hash"], resident["logits_hash"], way)
            self.assertGreaterEqual(stored["experts"]["reads"]["checked"], 1)

    def test_a_damaged_record_is_told_by_its_checksum(self):
        self.assertEqual(run("pack", "tiny", "damaged").returncode, 0)
        for file in Path("damaged").glob("experts-*.bin"):
            with open(file, "r+b") as records:
                for at in range(0, file.stat().st_size, 4096):
                    records.seek(at)
                    byte = records.read(1)[0]
                    records.seek(at)
                    records.write(bytes([byte ^ 0x11]))
        result = answer(model="damaged")
        self.assertEqual(result.returncode, 1)
        for word in (b"checksum", b"expert", b"layer", b"experts-"):
            self.assertIn(word, result.stderr)
        self.assertEqual(answer("--verify-reads", "never", model="damaged").returncode, 0)

    def test_a_cut_shard_ends_the_answer_with_its_name(self):
        shutil.copytree("tiny", "cut", dirs_exist_ok=True)
        self.assertEqual(run("run", "-m", "cut", "--vocab", "bytes.tiktoken", "-p", "x", "--raw", "--max-tokens", "1",
                             "--experts", "streamed").returncode, 0)
        shards = sorted(Path("cut").glob("*.safetensors"))
        for shard in shards:
            with open(shard, "r+b") as file:
                file.truncate(shard.stat().st_size - 1)
        result = run("run", "-m", "cut", "--vocab", "bytes.tiktoken", "-p", "x", "--raw", "--max-tokens", "1", "--experts", "streamed")
        self.assertEqual(result.returncode, 1)
        self.assertIn(b".safetensors", result.stderr)


if __name__ == "__main__":
    unittest.main()
