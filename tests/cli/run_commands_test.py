#!/usr/bin/env python3
"""What the commands that run a model promise as processes: forms of output, one hash, state from turn to turn, Ctrl-C.

Runs the program named by the variable PERIGEE in the current folder, which the caller makes empty. The model is a tiny one
of random weights with a vocabulary of one token per byte, so its answers mean nothing, but they are always the same.
"""

import base64
import json
import os
import pty
import signal
import struct
import subprocess
import unittest
from pathlib import Path

PERIGEE = os.environ["PERIGEE"]
VOCABULARY = 512  # 256 bytes and K3's 256 special slots


def run(*arguments, data=b"", **options):
    return subprocess.run([PERIGEE, *arguments], input=data, capture_output=True, timeout=120, check=False, **options)


def setUpModule():
    lines = [base64.b64encode(bytes([i])) + b" %d\n" % i for i in range(256)]
    Path("bytes.tiktoken").write_bytes(b"".join(lines))
    made = run("synth", "tiny", "--vocab", str(VOCABULARY))
    assert made.returncode == 0, made.stderr


def with_model(command, *arguments, data=b""):
    return run(command, "-m", "tiny", "--vocab", "bytes.tiktoken", *arguments, data=data)


def read_safetensors(path):
    """Names, shapes and float32 values of a file."""
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, info in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = info["data_offsets"]
        tensors[name] = (info["dtype"], info["shape"], data[8 + length + begin : 8 + length + end])
    return tensors


class Case(unittest.TestCase):
    def assert_error(self, result, *words, status=1):
        self.assertEqual((result.returncode, result.stdout), (status, b""))
        self.assertRegex(result.stderr.decode(), r"\Aerror: [^\n]*\n\Z")
        for word in words:
            self.assertIn(word, result.stderr.decode())

    def output_of(self, result):
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return result.stdout.decode()

    def json_of(self, result):
        return json.loads(self.output_of(result))


class Run(Case):
    TWENTY = ("-p", "2+2?", "--greedy", "--thinking", "off", "--max-tokens", "20")

    def test_json_has_message_usage_and_a_hash(self):
        answer = self.json_of(with_model("run", *self.TWENTY, "--json"))
        message = answer["choices"][0]["message"]
        self.assertEqual((message["role"], message["reasoning_content"]), ("assistant", None))
        self.assertIn(answer["choices"][0]["finish_reason"], ("stop", "length"))
        Path("ask.json").write_text('[{"role":"user","content":"2+2?"}]')
        ids = self.output_of(run("render", "ask.json", "--vocab", "bytes.tiktoken", "--thinking", "off", "--ids")).split()
        usage = answer["usage"]
        self.assertEqual(usage["prompt_tokens"], len(ids) - len(["open", *"response", "sep"]))
        self.assertLessEqual(usage["completion_tokens"], 20)
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        self.assertRegex(answer["logits_hash"], r"\A[0-9a-f]{16}\Z")

    def test_messages_are_the_same_prompt(self):
        Path("ask.json").write_text('[{"role":"user","content":"2+2?"}]')
        typed = self.json_of(with_model("run", *self.TWENTY, "--json"))
        read = self.json_of(with_model("run", "--messages", "ask.json", *self.TWENTY[2:], "--json"))
        self.assertEqual(typed["logits_hash"], read["logits_hash"])

    def test_one_hash_on_every_backend_and_thread_count(self):
        answers = [
            self.json_of(with_model("run", *self.TWENTY, "--json", *how))
            for how in ((), ("--backend", "reference"), ("--threads", "1"), ("--threads", "3"))
        ]
        self.assertEqual(len({(a["logits_hash"], json.dumps(a["choices"])) for a in answers}), 1)
        self.assertEqual(answers[1]["backend"]["name"], "reference")

    def test_a_seed_repeats_an_answer_and_another_one_does_not(self):
        def answer(seed):
            result = with_model("run", "-p", "Hi", "--raw", "--max-tokens", "40", "--json", "--seed", seed)
            return self.json_of(result)["choices"][0]["text"]

        self.assertEqual(answer("1"), answer("1"))
        self.assertNotEqual(answer("1"), answer("2"))

    def test_a_pipe_gets_the_content_only(self):
        content = self.json_of(with_model("run", *self.TWENTY, "--json"))["choices"][0]["message"]["content"]
        self.assertTrue(content)
        self.assertEqual(self.output_of(with_model("run", *self.TWENTY)), content.rstrip("\n") + "\n")
        self.assertEqual(self.output_of(with_model("run", *self.TWENTY, "--no-stream")), content.rstrip("\n") + "\n")

    def test_thinking_is_shown_if_asked_for(self):
        thinks = ("-p", "2+2?", "--greedy", "--max-tokens", "12")
        message = self.json_of(with_model("run", *thinks, "--json"))["choices"][0]["message"]
        self.assertTrue(message["reasoning_content"])
        self.assertNotIn(message["reasoning_content"], self.output_of(with_model("run", *thinks)))
        shown = self.output_of(with_model("run", *thinks, "--show-thinking"))
        self.assertTrue(shown.startswith(message["reasoning_content"]))
        dimmed = self.output_of(with_model("run", *thinks, "--show-thinking", "--color", "always"))
        self.assertTrue(dimmed.startswith("\x1b[2m" + message["reasoning_content"] + "\x1b[0m"))

    def test_a_terminal_gets_the_thinking_dimmed_unless_it_is_hidden(self):
        thinks = ("-p", "2+2?", "--greedy", "--max-tokens", "12")
        thinking = self.json_of(with_model("run", *thinks, "--json"))["choices"][0]["message"]["reasoning_content"]
        self.assertTrue(thinking)

        def on_terminal(*options):
            command = [PERIGEE, "run", "-m", "tiny", "--vocab", "bytes.tiktoken", *thinks, *options]
            reader, terminal = pty.openpty()
            with subprocess.Popen(command, stdout=terminal, stderr=subprocess.DEVNULL) as process:
                process.wait(timeout=60)
            os.close(terminal)
            shown = b""
            try:
                while piece := os.read(reader, 4096):
                    shown += piece
            except OSError:  # how a terminal ends
                pass
            os.close(reader)
            return shown.decode()

        self.assertIn("\x1b[2m" + thinking + "\x1b[0m", on_terminal())
        self.assertNotIn(thinking, on_terminal("--hide-thinking"))

    def test_special_tokens_that_mean_nothing_are_never_generated(self):
        text = ""
        for seed in range(4):
            result = with_model("run", "-p", "Hi", "--raw", "--max-tokens", "100", "--seed", str(seed), "--top-p", "1")
            text += self.output_of(result)
        self.assertGreater(len(text), 100)
        for word in ("reserved_token", "[BOS]", "[PAD]", "media", "header_id"):
            self.assertNotIn(word, text)

    def test_a_stop_string_ends_the_answer_before_it(self):
        content = self.json_of(with_model("run", *self.TWENTY, "--json"))["choices"][0]["message"]["content"]
        stop = next(c for c in content[2:] if c != "\ufffd" and c.isprintable())
        answer = self.json_of(with_model("run", *self.TWENTY, "--json", "--stop", stop))
        self.assertEqual(answer["choices"][0]["message"]["content"], content[: content.index(stop)])
        self.assertEqual(answer["choices"][0]["finish_reason"], "stop")

    def test_ctrl_c_ends_the_answer(self):
        command = [PERIGEE, "run", "-m", "tiny", "--vocab", "bytes.tiktoken", "-p", "x", "--raw", "--greedy"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            first = process.stdout.read(1)
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=60)
        self.assertTrue(first)
        self.assertTrue(rest.endswith(b"\n"))
        self.assertEqual((process.returncode, errors), (130, b"error: interrupted\n"))

    def test_mistakes_are_one_sentence(self):
        self.assert_error(with_model("run"), "-p", status=2)
        self.assert_error(with_model("run", "-p", "x", "--messages", "y"), status=2)
        self.assert_error(with_model("run", "-p", "x", "--temperature", "-1"), "temperature", status=2)
        self.assert_error(with_model("run", "-p", "x", "--backend", "abacus"), "abacus", "reference")
        self.assert_error(run("run", "-m", "nowhere", "-p", "x"), "nowhere")
        Path("image.json").write_text('[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]')
        self.assert_error(with_model("run", "--messages", "image.json"), "image.json", "messages[0]")

    def test_a_vocabulary_that_is_larger_than_the_model_is_refused(self):
        self.assertEqual(run("synth", "other", "--vocab", "300").returncode, 0)
        self.assert_error(run("run", "-m", "other", "--vocab", "bytes.tiktoken", "-p", "x"), "512", "300")

    def test_a_missing_shard_is_named(self):
        self.assertEqual(run("synth", "gap", "--vocab", str(VOCABULARY)).returncode, 0)
        shard = sorted(Path("gap").glob("*.safetensors"))[1]
        shard.unlink()
        self.assert_error(run("run", "-m", "gap", "--vocab", "bytes.tiktoken", "-p", "x"), shard.name)


class Chat(Case):
    def chat(self, *lines, options=()):
        data = "".join(line + "\n" for line in lines).encode()
        return with_model("chat", "--greedy", "--max-tokens", "12", "--thinking", "off", *options, data=data)

    def test_a_later_answer_is_that_of_the_whole_conversation(self):
        Path("saved.json").unlink(missing_ok=True)
        said = self.output_of(self.chat("Hello", "And you?", "/save saved.json"))
        request = json.loads(Path("saved.json").read_text())
        roles = [message["role"] for message in request["messages"]]
        self.assertEqual(roles, ["user", "assistant"] * 2)
        last = request["messages"].pop()["content"]
        self.assertTrue(said.endswith(last.rstrip("\n") + "\n"))
        Path("asked.json").write_text(json.dumps(request))
        again = with_model("run", "--messages", "asked.json", "--greedy", "--max-tokens", "12", "--json")
        self.assertEqual(self.json_of(again)["choices"][0]["message"]["content"], last)

    def test_reset_forgets(self):
        once = self.output_of(self.chat("Hello"))
        self.assertEqual(self.output_of(self.chat("Other", "/reset", "Hello"))[-len(once) :], once)

    def test_a_pipe_gets_no_escape_codes_and_no_thinking(self):
        said = self.output_of(self.chat("Hello", "/thinking on", "/effort low", "Hello", "/quit", "unread"))
        self.assertNotIn("\x1b", said)

    def test_an_unknown_command_ends_a_chat_on_a_pipe(self):
        result = self.chat("/dance")
        self.assertEqual(result.returncode, 2)
        self.assertIn("/dance", result.stderr.decode())

    def test_two_slashes_say_one(self):
        Path("slash.json").unlink(missing_ok=True)
        self.output_of(self.chat("//etc", "/save slash.json"))
        self.assertEqual(json.loads(Path("slash.json").read_text())["messages"][0]["content"], "/etc")

    def test_a_saved_conversation_is_not_overwritten(self):
        Path("there.json").write_text("mine")
        result = self.chat("/save there.json")
        self.assertEqual((result.returncode, Path("there.json").read_text()), (1, "mine"))


class Logits(Case):
    def logits(self, out, *options, ids="[1, 2, 300, 4, 5]"):
        return run("logits", "-m", "tiny", "--ids", "-", "--out", out, *options, data=ids.encode())

    def test_rows_are_of_the_positions_asked_for(self):
        self.assertEqual(self.output_of(self.logits("all.st")), "")
        dtype, shape, values = read_safetensors("all.st")["logits"]
        self.assertEqual((dtype, shape), ("F32", [5, VOCABULARY]))
        self.assertEqual(self.output_of(self.logits("last.st", "--positions", "last")), "")
        row = 4 * VOCABULARY
        self.assertEqual(read_safetensors("last.st")["logits"], ("F32", [1, VOCABULARY], values[4 * row :]))
        self.assertEqual(self.output_of(self.logits("some.st", "--positions", "3,0")), "")
        some = read_safetensors("some.st")["logits"]
        self.assertEqual(some, ("F32", [2, VOCABULARY], values[3 * row : 4 * row] + values[:row]))

    def test_inner_values_have_their_names_and_shapes_and_the_same_bits_on_every_backend(self):
        self.output_of(self.logits("fast.st", "--inner", "--precision", "f32"))
        self.output_of(self.logits("slow.st", "--inner", "--precision", "f32", "--backend", "reference"))
        fast = read_safetensors("fast.st")
        self.assertEqual(fast, read_safetensors("slow.st"))
        config = json.loads(Path("tiny/config.json").read_text())["text_config"]
        for name in ("attn_in", "attn_out", "ffn_in", "ffn_out", "prefix"):
            self.assertEqual(fast[f"layers.1.{name}"][:2], ("F32", [5, config["hidden_size"]]))
        self.assertEqual(fast["layers.1.expert_ids"][:2], ("I32", [5, config["num_experts_per_token"]]))
        for name in ("bank", "final_in", "final_normed", "layers.0.state", "layers.0.conv_q"):
            self.assertIn(name, fast)

    def test_several_prompts_have_names(self):
        self.output_of(self.logits("two.st", ids='{"a": [1, 2], "b": [3]}'))
        shapes = {name: tensor[1] for name, tensor in read_safetensors("two.st").items()}
        self.assertEqual(shapes, {"a.logits": [2, VOCABULARY], "b.logits": [1, VOCABULARY]})

    def test_mistakes_are_one_sentence(self):
        self.assert_error(self.logits("no.st", ids="[512]"), "512", status=2)
        self.assert_error(self.logits("no.st", ids="[]"), "no tokens", status=2)
        self.assert_error(self.logits("no.st", ids="[1.5]"), "1.5")
        self.assert_error(self.logits("no.st", "--positions", "5"), "5", status=2)
        self.assert_error(self.logits("no.st", "--positions", "x"), "x", status=2)
        self.assertFalse(Path("no.st").exists())


class Selfcheck(Case):
    def test_every_backend_gives_the_same_bits(self):
        report = self.json_of(with_model("selfcheck", "--threads", "2", "--tokens", "2", "--json"))
        self.assertTrue(report["equal"])
        self.assertEqual(len({(row["top"], row["logits_hash"]) for row in report["rows"]}), 1)
        backends = {row["backend"] for row in report["rows"]}
        self.assertIn("reference", backends)
        self.assertEqual(len(report["rows"]), 3 * (1 + 2 * (len(backends) - 1)))
        self.assertEqual(report["prompt"], "question")

    def test_a_checkpoint_without_a_vocabulary_is_given_fixed_ids(self):
        report = self.json_of(run("selfcheck", "-m", "tiny", "--cycles", "2", "--threads", "1", "--tokens", "1", "--json"))
        self.assertEqual(report["prompt"], "fixed ids")
        text = self.output_of(run("selfcheck", "-m", "tiny", "--backend", "reference", "--tokens", "1"))
        self.assertIn("All 3 runs gave the same bits.", text)

    def test_one_run_alone_proves_nothing(self):
        result = run("selfcheck", "-m", "tiny", "--backend", "reference", "--tokens", "1", "--cycles", "1")
        self.assertEqual(result.returncode, 2)


if __name__ == "__main__":
    unittest.main()
