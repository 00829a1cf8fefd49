#!/usr/bin/env python3
"""What the text commands promise as processes: bytes in and out, shapes of JSON, exit status, pipes that close.

Runs the program named by the variable PERIGEE in the current folder, which the caller makes empty. Uses a vocabulary of
one token per byte (id = byte) with K3's special slots behind it, so that every expected id can be written down.
"""

import base64
import json
import os
import subprocess
import time
import unittest
from pathlib import Path

PERIGEE = os.environ["PERIGEE"]
DATA = Path(__file__).resolve().parents[1] / "data"
GOLDENS = DATA / "text"

MARKERS = {b"<|open|>": 259, b"<|close|>": 260, b"<|sep|>": 261, b"<|end_of_msg|>": 258}
IMAGE = "<|media_begin|>image 640x480<|media_content|><|media_pad|><|media_end|>"


def setUpModule():
    lines = [base64.b64encode(bytes([i])) + b" %d\n" % i for i in range(256)]
    Path("bytes.tiktoken").write_bytes(b"".join(lines))


def run(*arguments, data=b"", **options):
    return subprocess.run([PERIGEE, *arguments], input=data, capture_output=True, timeout=120, check=False, **options)


def with_bytes(command, *arguments, data=b""):
    return run(command, *arguments, "--vocab", "bytes.tiktoken", data=data)


def ids_of(text):
    """The ids of text in the vocabulary of bytes, its markers recognised."""
    ids = []
    while text:
        marker = next((m for m in MARKERS if text.startswith(m)), None)
        ids.append(MARKERS[marker] if marker else text[0])
        text = text[len(marker) if marker else 1:]
    return ids


def spaced(ids):
    return " ".join(map(str, ids)).encode()


class Case(unittest.TestCase):
    def assert_output(self, result, expected):
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(result.stdout, expected)

    def assert_error(self, result, *words, status=1):
        self.assertEqual((result.returncode, result.stdout), (status, b""))
        self.assertRegex(result.stderr.decode(), r"\Aerror: [^\n]*\n\Z")
        for word in words:
            self.assertIn(word, result.stderr.decode())

    def json_of(self, result):
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return json.loads(result.stdout)


class Tokenize(Case):
    def test_text_becomes_ids_on_one_line(self):
        self.assert_output(with_bytes("tokenize", data=b"Hi!"), b"72 105 33\n")
        self.assert_output(with_bytes("tokenize", data=b""), b"\n")

    def test_a_file_is_read_like_standard_input(self):
        Path("a.txt").write_bytes(b"\x00\xff\n")
        self.assert_output(with_bytes("tokenize", "a.txt"), b"0 255 10\n")
        self.assert_output(with_bytes("tokenize", "-", data=b"\x00\xff\n"), b"0 255 10\n")

    def test_any_bytes_come_back(self):
        data = bytes(range(256)) * 600 + b"\xf0\x9f \xed\xa0\x80"
        ids = with_bytes("tokenize", data=data)
        self.assertEqual(ids.returncode, 0)
        self.assert_output(with_bytes("tokenize", "--decode", data=ids.stdout), data)

    def test_special_tokens_need_to_be_asked_for(self):
        text = b"a<|open|>b[EOS]"
        self.assert_output(with_bytes("tokenize", data=text), spaced(text) + b"\n")
        self.assert_output(with_bytes("tokenize", "--markup", data=text), spaced([97, 259, 98, 257]) + b"\n")
        self.assert_output(with_bytes("tokenize", "--decode", data=b"97 259 98 257"), text)

    def test_count(self):
        self.assert_output(with_bytes("tokenize", "--count", data=b"x" * 70000), b"70000\n")
        self.assert_output(with_bytes("tokenize", "--count", "--markup", data=b"<|sep|>"), b"1\n")

    def test_json_has_ids_and_pieces(self):
        self.assertEqual(self.json_of(with_bytes("tokenize", "--json", data=b'a"\n')),
                         {"ids": [97, 34, 10], "pieces": ["a", '"', "\n"]})
        self.assertEqual(self.json_of(with_bytes("tokenize", "--json", data=b"")), {"ids": [], "pieces": []})

    def test_json_gives_the_bytes_of_tokens_that_are_no_utf8(self):
        result = self.json_of(with_bytes("tokenize", "--json", data="aé".encode()))
        self.assertEqual(result, {"ids": [97, 0xC3, 0xA9], "pieces": ["a", "\ufffd", "\ufffd"],
                                  "hex": {"1": "c3", "2": "a9"}})

    def test_json_is_one_list_however_long(self):
        data = bytes(range(32, 127)) * 1500  # more than two pieces of output
        result = self.json_of(with_bytes("tokenize", "--json", data=data))
        self.assertEqual(result["ids"], list(data))
        self.assertEqual("".join(result["pieces"]).encode(), data)

    def test_decode_accepts_blanks_commas_and_a_json_array(self):
        for text in (b"72 105", b"72,105", b"72\n105\n", b"[72, 105]", b" [72,\n105 ]\n", b"72,\t105,"):
            self.assert_output(with_bytes("tokenize", "--decode", data=text), b"Hi")
        for text in (b"", b" \n", b"[]"):
            self.assert_output(with_bytes("tokenize", "--decode", data=text), b"")

    def test_decode_names_the_word_that_is_no_id(self):
        for text, word, number, byte in ((b"72 x 1", "x", 2, 3), (b"1,2,512", "512", 3, 4), (b"-1", "-1", 1, 0),
                                         (b"[1, 2.5]", "2.5", 2, 4), (b"9" * 20, "9" * 20, 1, 0),
                                         (b"1 [2]", "[2]", 2, 2), (b"7 \xff\x1b", "\\xff\\x1b", 2, 2)):
            self.assert_error(with_bytes("tokenize", "--decode", data=text), "standard input",
                              f'word {number} ("{word}", byte {byte})', "0 to 511")
        self.assert_error(with_bytes("tokenize", "--decode", data=b"[1, 2"), "has no ]")

    def test_show_puts_ids_beneath_their_text(self):
        self.assert_output(with_bytes("tokenize", "--show", data=b"a \nb\x1b"),
                           "a |· |↵\n97 32 10\nb |\\x1b\n98 27\n".encode())

    def test_show_has_colours_only_if_asked_or_on_a_terminal(self):
        self.assertNotIn(b"\x1b", with_bytes("tokenize", "--show", data=b"ab").stdout)
        coloured = with_bytes("tokenize", "--show", "--color", "always", data=b"ab").stdout
        grounds = coloured.split(b"a")[0], coloured.split(b"b")[0].split(b" ")[-1]
        self.assertIn(b"\x1b[", grounds[0])
        self.assertNotEqual(grounds[0], grounds[1], "neighbours have different colours")

    def test_rows_fit(self):
        rows = with_bytes("tokenize", "--show", data=b"w" * 1000).stdout.decode().splitlines()
        self.assertGreater(len(rows), 20)
        self.assertLessEqual(max(map(len, rows)), 100)

    def test_views_exclude_each_other(self):
        for views in (("--json", "--show"), ("--json", "--count"), ("--decode", "--json"), ("--decode", "--markup")):
            self.assert_error(with_bytes("tokenize", *views), "perigee tokenize --help", status=2)


class Vocabulary(Case):
    def test_a_missing_vocabulary_is_named(self):
        self.assert_error(run("tokenize", "--vocab", "nothing-here"), "nothing-here")

    def test_a_damaged_vocabulary_is_named_with_its_line(self):
        Path("damaged.tiktoken").write_bytes(b"IQ== 0\nIg== two\n")
        self.assert_error(run("tokenize", "--vocab", "damaged.tiktoken"), "damaged.tiktoken", "2")

    def test_models_nano_in_the_current_folder_is_the_default(self):
        folder = Path("here/models/nano")
        folder.mkdir(parents=True)
        (folder / "tiktoken.model").write_bytes(Path("bytes.tiktoken").read_bytes())
        self.assert_output(run("tokenize", data=b"Hello", cwd="here"), spaced(b"Hello") + b"\n")

    def test_else_the_one_above_the_program(self):
        away = Path("away").resolve()
        away.mkdir()
        program = Path("installed/bin/perigee").resolve()
        program.parent.mkdir(parents=True)
        program.write_bytes(Path(PERIGEE).read_bytes())
        program.chmod(0o755)
        model = Path("installed/share/perigee/models/nano")
        result = subprocess.run([program, "tokenize"], input=b"A", capture_output=True, cwd=away, timeout=120,
                                check=False)
        self.assert_error(result, "--vocab")
        model.mkdir(parents=True)
        (model / "tiktoken.model").write_bytes(Path("bytes.tiktoken").read_bytes())
        result = subprocess.run([program, "tokenize"], input=b"A", capture_output=True, cwd=away, timeout=120,
                                check=False)
        self.assert_output(result, b"65\n")


class Render(Case):
    USER = b'<|open|>message role="user"<|sep|>Hi<|close|>message<|sep|><|end_of_msg|>'
    OPENED = b'<|open|>message role="assistant"<|sep|><|open|>think<|sep|>'

    def render(self, request, *arguments):
        return with_bytes("render", "-", *arguments, data=json.dumps(request).encode())

    def test_text_is_exactly_the_prompt(self):
        messages = [{"role": "user", "content": "Hi"}]
        self.assert_output(self.render(messages, "--effort", "unset", "--text"), self.USER + self.OPENED)
        self.assert_output(self.render({"messages": messages}, "--effort", "unset", "--text", "--no-generation"),
                           self.USER)

    def test_ids_decode_to_the_text(self):
        messages = [{"role": "user", "content": "Hi <|open|>"}]
        text = self.render(messages, "--text").stdout
        ids = self.render(messages, "--ids")
        self.assert_output(with_bytes("tokenize", "--decode", data=ids.stdout), text)
        self.assertIn(spaced(b"Hi <|open|>"), ids.stdout, "spelled markup stays text")

    def test_json(self):
        prompt = self.json_of(self.render([{"role": "user", "content": "Hi"}], "--effort", "unset", "--json"))
        text = self.USER + self.OPENED
        self.assertEqual(prompt["text"].encode(), text)
        self.assertEqual(prompt["ids"], ids_of(text))
        self.assertEqual(prompt["prompt_tokens"], len(prompt["ids"]) - 3)
        self.assertEqual("".join(s["text"] for s in prompt["segments"]), prompt["text"])
        self.assertEqual([i for s in prompt["segments"] for i in s["ids"]], prompt["ids"])
        self.assertEqual(prompt["segments"][0], {"kind": "marker", "text": "<|open|>", "ids": [259]})
        self.assertEqual(prompt["segments"][7], {"kind": "text", "text": "Hi", "ids": [72, 105]})
        self.assertEqual(prompt["images"], [])

    def test_the_plain_view_counts(self):
        result = self.render([{"role": "user", "content": "Hi"}], "--effort", "unset")
        ids = len(ids_of(self.USER + self.OPENED))
        self.assertEqual(result.returncode, 0)
        self.assertTrue(result.stdout.startswith(self.USER + b"\n" + self.OPENED + b"\n\n"))
        self.assertIn(f"22 segments, {ids} ids, ".encode(), result.stdout)
        self.assertNotIn(b"\x1b", result.stdout)

    def test_control_characters_do_not_reach_the_terminal(self):
        result = self.render([{"role": "user", "content": "a\x1b[2Jb\u009bc"}], "--color", "always")
        self.assertIn(b"a\\x1b[2Jb\\xc2\\x9bc", result.stdout)

    def test_segments_tell_markup_from_text_that_spells_it(self):
        lines = self.render([{"role": "user", "content": "<|open|>"}], "--effort", "unset", "--segments")
        lines = lines.stdout.decode().splitlines()
        self.assertEqual(lines[0], "marker  <|open|>  259")
        self.assertEqual(lines[7], "text    <|open|>  " + spaced(b"<|open|>").decode())

    def test_effort_and_thinking_are_overridden(self):
        messages = [{"role": "user", "content": "Hi"}]
        high = {"messages": messages, "thinking_effort": "high"}
        for request, options, effort in ((messages, (), "max"), (messages, ("--effort", "low"), "low"),
                                         (high, (), "high"), (high, ("--effort", "low"), "low")):
            self.assertIn(f"thinking_effort={effort}".encode(), self.render(request, "--text", *options).stdout)
        for request, options in ((messages, ("--thinking", "off")), ({"messages": messages, "thinking": False}, ())):
            result = self.render(request, "--text", *options)
            self.assertTrue(result.stdout.endswith(b'role="assistant"<|sep|><|open|>response<|sep|>'))
            self.assertNotIn(b"thinking_effort", result.stdout)
        result = self.render({"messages": messages, "thinking": False}, "--text", "--thinking", "on")
        self.assertTrue(result.stdout.endswith(b"<|open|>think<|sep|>"))

    def test_sizes_of_images(self):
        def request(part=None, image=None, **more):
            url = {"url": "x", **(image or {})}
            content = [{"type": "image_url", "image_url": url, **(part or {})}]
            return {"messages": [{"role": "user", "content": content}], **more}

        size = {"width": 640, "height": 480}
        for body, options in ((request(part=size), ()), (request(image=size), ()), (request(image_prompts=[IMAGE]), ()),
                              (request(), ("--image-size", "640x480")),
                              (request(part=size), ("--image-size", "1x1"))):
            prompt = self.json_of(self.render(body, "--json", *options))
            self.assertIn(IMAGE, prompt["text"])
            self.assertEqual([(i["width"], i["height"]) for i in prompt["images"]], [(640, 480)])
            self.assertEqual(prompt["ids"][prompt["images"][0]["pad"]], 256 + 21)
        self.assert_error(self.render(request()), "messages[0].content[0]", "--image-size", status=2)
        for wrong in ("640", "0x480", "640x", "x", "640x480x3", "-1x2"):
            self.assert_error(self.render(request(), f"--image-size={wrong}"), "--image-size", status=2)
        self.assert_error(self.render(request(image_prompts=["image"])), "image_prompts")

    def test_sizes_of_images_from_the_images_themselves(self):
        image = (DATA / "media" / "01_jpeg_420_61x47.jpg").read_bytes()

        def request(data):
            url = "data:image/png;base64," + base64.b64encode(data).decode()
            return [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]

        prompt = self.json_of(self.render(request(image), "--json", "--image-size", "1x1"))
        self.assertEqual([(i["width"], i["height"]) for i in prompt["images"]], [(61, 47)])
        self.assert_error(self.render(request(image[:-300])), "messages[0].content[0].image_url", "cut off")

    def test_lenient_accepts_what_the_encoder_does(self):
        messages = [{"role": "user", "content": "go"},
                    {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "function": {"name": "f"}}]},
                    {"role": "tool", "content": "18C"}]
        self.assert_error(self.render(messages, "--text"), "standard input", "messages[2]", "tool_call_id")
        self.assertIn(b'tool="f"', self.render(messages, "--text", "--lenient").stdout)

    def test_what_is_no_conversation_is_refused_with_its_place(self):
        Path("chat.json").write_text('[{"role":"user","content":5}]', encoding="utf-8")
        self.assert_error(with_bytes("render", "chat.json"), "chat.json", "messages[0].content")
        Path("chat.json").write_text('[{"role":"user",\n}]', encoding="utf-8")
        self.assert_error(with_bytes("render", "chat.json"), "chat.json", "line 2")
        Path("chat.json").write_bytes(b'[{"role":"user","content":"\xff"}]')
        self.assert_error(with_bytes("render", "chat.json"), "chat.json")
        self.assert_error(with_bytes("render", "no-such.json"), "no-such.json")
        self.assert_error(with_bytes("render", "."), "cannot read .")
        self.assert_error(with_bytes("render"), "MESSAGES", status=2)


class Parse(Case):
    REPLY = b'A<|close|>think<|sep|><|open|>response<|sep|>B\xc3\xa9<|close|>response<|sep|>'
    CALL = (b'<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|><|open|>argument key="n" type="number"<|sep|>12'
            b'<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>')
    END = b"<|close|>message<|sep|><|end_of_msg|>"

    def parse(self, text, *arguments):
        return with_bytes("parse", *arguments, data=spaced(ids_of(text)))

    def test_message_in_the_shape_of_openai(self):
        self.assertEqual(self.json_of(self.parse(self.REPLY + self.CALL + self.END)), {
            "role": "assistant", "content": "Bé", "reasoning_content": "A",
            "tool_calls": [{"id": "f_0", "type": "function", "function": {"name": "f", "arguments": '{"n":12}'}}],
            "finish_reason": "tool_calls", "notes": []})

    def test_json_is_one_line_of_the_same(self):
        line = self.parse(self.REPLY + self.END, "--json").stdout
        self.assertEqual(line.count(b"\n"), 1)
        self.assertEqual(json.loads(line), json.loads(self.parse(self.REPLY + self.END).stdout))

    def test_text_is_the_same_as_its_ids(self):
        text = self.REPLY + self.CALL + self.END
        self.assertEqual(with_bytes("parse", "--text", data=text).stdout, self.parse(text).stdout)

    def test_a_file_of_ids_as_json(self):
        Path("reply.json").write_text(json.dumps(ids_of(self.REPLY + self.END)), encoding="utf-8")
        self.assertEqual(self.json_of(with_bytes("parse", "reply.json"))["content"], "Bé")

    def test_a_cut_reply_says_so(self):
        message = self.json_of(self.parse(b"Think", "--cut"))
        self.assertEqual((message["reasoning_content"], message["content"], message["finish_reason"]),
                         ("Think", "", "length"))
        self.assertEqual(self.json_of(self.parse(b"Think"))["finish_reason"], "stop")

    def test_stream_is_deltas_and_then_the_end(self):
        lines = self.parse(self.REPLY + self.CALL + self.END, "--stream").stdout.decode().splitlines()
        deltas = [json.loads(line) for line in lines]
        self.assertEqual(deltas[-1], {"finish_reason": "tool_calls", "notes": []})
        self.assertEqual("".join(d.get("reasoning_content", "") for d in deltas), "A")
        self.assertEqual("".join(d.get("content", "") for d in deltas), "Bé")
        calls = [d["tool_calls"][0] for d in deltas if "tool_calls" in d]
        self.assertEqual(calls[0], {"index": 0, "id": "f_0", "type": "function",
                                    "function": {"name": "f", "arguments": ""}})
        self.assertEqual("".join(c["function"]["arguments"] for c in calls), '{"n":12}')

    def test_start(self):
        for start, reasoning, content in (("think", "x", ""), ("response", None, "x"), ("idle", None, "x")):
            message = self.json_of(self.parse(b"x", "--start", start, "--cut"))
            self.assertEqual((message["reasoning_content"], message["content"]), (reasoning, content), start)

    def test_start_is_read_from_the_prompt(self):
        for opened, reasoning in ((b"<|open|>think<|sep|>", "x"), (b"<|open|>response<|sep|>", None)):
            Path("prompt.ids").write_bytes(spaced(ids_of(b'<|open|>message role="assistant"<|sep|>' + opened)))
            message = self.json_of(self.parse(b"x", "--prompt", "prompt.ids", "--cut"))
            self.assertEqual(message["reasoning_content"], reasoning)
        self.assert_error(self.parse(b"x", "--prompt", "prompt.ids", "--start", "idle"), "--start", status=2)
        self.assertEqual(self.parse(b"x", "--prompt", "prompt.ids", "--start", "auto").returncode, 0)
        self.assert_error(self.parse(b"x", "--prompt", "-"), "standard input", status=2)
        Path("prompt.ids").write_bytes(b"1 2 z")
        self.assert_error(self.parse(b"x", "--prompt", "prompt.ids"), "prompt.ids", "word 3")

    def test_stop_strings_end_the_content(self):
        stops = ("--stop", "zzz", "--stop", " t", "-")  # each option takes one string, and FILE may follow
        message = self.json_of(self.parse(b"one two three", "--start", "response", *stops))
        self.assertEqual((message["content"], message["finish_reason"]), ("one", "stop"))

    def test_no_tools_drops_calls(self):
        message = self.json_of(self.parse(self.REPLY + self.CALL + self.END, "--no-tools"))
        self.assertEqual((message["tool_calls"], message["finish_reason"]), ([], "stop"))

    def test_ids_that_are_none_are_refused(self):
        self.assert_error(with_bytes("parse", data=b"1 2 512"), "word 3", "512")


class Parity(Case):
    def test_right_values_are_equal(self):
        folder = Path("right")
        folder.mkdir()
        (folder / "tokenizer.json").write_text(json.dumps(
            {"cases": [{"text": "ab", "specials": False, "ids": [97, 98]}], "long": []}), encoding="utf-8")
        result = with_bytes("parity", "text", "right")
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertRegex(result.stdout.decode(), r"tokenizer: ids +1 +1\n")
        self.assertIn("not there: chat/reply_stream.json", result.stdout.decode())
        report = self.json_of(with_bytes("parity", "text", "right", "--json"))
        self.assertTrue(report["equal"])
        self.assertEqual(report["rows"][0], {"what": "tokenizer: ids", "cases": 1, "equal": 1, "first": None})

    def test_a_wrong_value_is_shown_and_fails(self):
        folder = Path("wrong")
        folder.mkdir()
        cases = [{"text": text, "specials": False, "ids": list(text.encode())} for text in ("ab", "cd", "ef")]
        cases[1]["ids"] = [99, 101]
        (folder / "tokenizer.json").write_text(json.dumps({"cases": cases, "long": []}), encoding="utf-8")
        result = with_bytes("parity", "text", "wrong")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr.decode(), r"\Aerror: [^\n]* differ\n\Z")
        self.assertIn("tokenizer: ids, first difference: cases[1], id 1 of 2\n  expected  99 101\n  found     99 100\n",
                      result.stdout.decode())
        report = json.loads(with_bytes("parity", "text", "wrong", "--json").stdout)
        self.assertFalse(report["equal"])
        self.assertEqual(report["rows"][0]["first"],
                         {"which": "cases[1], id 1 of 2", "expected": "99 101", "found": "99 100"})

    def test_another_vocabulary_is_recognised(self):
        result = with_bytes("parity", "text", str(GOLDENS))
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr.decode(), r"\Aerror: [^\n]*another vocabulary[^\n]*--vocab\n\Z")
        self.assertRegex(result.stdout.decode(), r"prompts: text +30 +30\n", "texts need no vocabulary")

    def test_a_folder_without_values_is_refused(self):
        Path("empty").mkdir()
        self.assert_error(with_bytes("parity", "text", "empty"), "empty", "tokenizer.json")
        self.assert_error(with_bytes("parity"), "perigee parity --help", status=2)


class Pipes(Case):
    """Readers that leave, disks that are full, writers that come late."""

    def start(self, *arguments, **options):
        return subprocess.Popen([PERIGEE, *arguments, "--vocab", "bytes.tiktoken"], stdin=subprocess.PIPE,
                                stderr=subprocess.PIPE, **options)

    def test_a_reader_that_leaves_is_no_noise(self):
        for arguments, data in ((("tokenize",), b"x" * 2_000_000), (("tokenize", "--json"), b"x" * 2_000_000),
                                (("tokenize", "--show"), b"x" * 2_000_000),
                                (("tokenize", "--decode"), b"120 " * 900_000),
                                (("parse", "--stream"), b"120 " * 50_000)):
            process = self.start(*arguments, stdout=subprocess.PIPE)
            process.stdout.close()
            _, errors = process.communicate(data, timeout=120)
            self.assertEqual((process.returncode, errors), (1, b""), arguments)

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            process = self.start("tokenize", stdout=full)
            _, errors = process.communicate(b"x" * 2_000_000, timeout=120)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(errors.decode(), r"\Aerror: cannot write [^\n]*\n\Z")

    def test_an_interrupt_ends_the_wait_for_input(self):
        process = self.start("tokenize", stdout=subprocess.PIPE)
        time.sleep(0.5)
        self.assertIsNone(process.poll(), "it should be waiting")
        process.terminate()
        process.wait(timeout=10)
        self.assertEqual(process.returncode, 130)
        process.communicate()

    def test_input_may_come_in_pieces(self):
        process = self.start("tokenize", stdout=subprocess.PIPE)
        for byte in b"abc":
            process.stdin.write(bytes([byte]))
            process.stdin.flush()
            time.sleep(0.05)
        output, _ = process.communicate(timeout=60)
        self.assertEqual(output, b"97 98 99\n")

    def test_a_megabyte_without_a_break_takes_a_moment(self):
        began = time.monotonic()
        result = with_bytes("tokenize", "--count", data=b"a" * 1_000_000)
        self.assert_output(result, b"1000000\n")
        self.assertLess(time.monotonic() - began, 60)


if __name__ == "__main__":
    unittest.main()
