"""Prompts and replies as ids, in K3's chat format (docs/chat-format.md), with a mark on what the assistant writes.

Covers what the nano model is trained on: text messages, tools, effort, tool choice, response formats. Images, names,
partial replies and tools in the middle of a conversation are left to the C++ renderer, which this is checked against.
"""

import json
import re
from dataclasses import dataclass, field

EFFORT_TEXT = (
    "`thinking_effort` guides on how much to think in your thinking channel (not including the response channel), "
    "supported values include `low`, `medium`, `high`, and `max`.\n"
    "Now the system is invoked with `thinking_effort={}`."
)
TOOLS_TEXT = "# Tools\nHere are the available tools, described in JSONSchema.\n\n```json\n{}\n```"
CHOICE_TEXT = {
    "required": "The system is invoked with `tool_choice=required`.\nYou MUST call tools in the next message.",
    "none": "The system is invoked with `tool_choice=none`.\nYou MUST NOT call any tools in the next message.",
}
FORMAT_TEXT = (
    "The system is invoked with `response_format={}`.\n"
    "Your response must be raw JSON data without markdown code blocks (```json) or any additional formatting."
)
SCHEMA_TEXT = "\nThe JSON data must match the following schema:\n```json\n{}\n```"

OPEN, CLOSE, SEP = (re.escape(mark) for mark in ("<|open|>", "<|close|>", "<|sep|>"))
TOOLS = re.compile(rf"{OPEN}tools{SEP}(.+){CLOSE}tools{SEP}", re.DOTALL)
CALL = re.compile(rf'{OPEN}call tool="([^"]*)" index="\d+"{SEP}(.*?){CLOSE}call{SEP}', re.DOTALL)
ARGUMENT = re.compile(rf'{OPEN}argument key="([^"]*)" type="([a-z]+)"{SEP}(.*?){CLOSE}argument{SEP}', re.DOTALL)


@dataclass
class Conversation:
    """A request in OpenAI's shape; the assistant messages in it are what a model should have written.

    effort: "low", "high", "max" or None for no message about it; without `thinking` it is ignored.
    """

    messages: list
    thinking: bool = True
    effort: str | None = "max"
    tools: list = field(default_factory=list)
    tool_choice: str | None = None
    response_format: dict | None = None

    def request(self):
        """What `perigee render` reads."""
        request = {"messages": self.messages, "thinking": self.thinking}
        if self.effort:
            request["thinking_effort"] = self.effort
        for key in ("tools", "tool_choice", "response_format"):
            if getattr(self, key):
                request[key] = getattr(self, key)
        return request


def compact(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def json_type(value):
    names = {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null", dict: "object"}
    return names.get(type(value), "array")


class Writer:
    """Collects ids; `learn` marks those that a model should write itself."""

    def __init__(self, tokenizer):
        self.tokenizer, self.ids, self.learn, self.learning = tokenizer, [], [], False

    def add(self, ids):
        self.ids += ids
        self.learn += [self.learning] * len(ids)

    def mark(self, name):
        self.add([self.tokenizer.special[name]])

    def text(self, text):
        self.add(self.tokenizer.encode(text))

    def open(self, tag, **attributes):
        self.mark("<|open|>")
        self.text(tag)
        for key, value in attributes.items():
            self.text(" " + key)
            self.text('="')
            self.text(value.replace("&", "&amp;").replace('"', "&quot;"))
            self.text('"')
        self.mark("<|sep|>")

    def close(self, tag):
        self.mark("<|close|>")
        self.text(tag)
        self.mark("<|sep|>")

    def element(self, tag, text, **attributes):
        self.open(tag, **attributes)
        self.text(text)
        self.close(tag)

    def message(self, text, **attributes):
        self.element("message", text, **attributes)
        self.mark("<|end_of_msg|>")

    def system(self, kind, text):
        self.message(text, role="system", type=kind)


def write_calls(w, calls):
    w.open("tools")
    for index, call in enumerate(calls, 1):
        w.open("call", tool=call["function"]["name"], index=str(index))
        for key, value in json.loads(call["function"]["arguments"]).items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            w.element("argument", text, key=key, type=json_type(value))
        w.close("call")
    w.close("tools")


def write_assistant(w, message, thinking):
    """The first channel's opening belongs to the prompt; everything behind it is the reply."""
    open_reply(w, thinking)
    w.learning = True
    if thinking:
        w.text(message.get("reasoning_content", ""))
        w.close("think")
        w.open("response")
    w.text(message["content"])
    w.close("response")
    if message.get("tool_calls"):
        write_calls(w, message["tool_calls"])
    w.close("message")
    w.mark("<|end_of_msg|>")
    w.learning = False


def open_reply(w, thinking):
    w.open("message", role="assistant")
    w.open("think" if thinking else "response")


def write_messages(w, messages, thinking):
    names, answered = [], 0
    for message in messages:
        if message["role"] == "assistant":
            write_assistant(w, message, thinking)
            names, answered = [call["function"]["name"] for call in message.get("tool_calls", [])], 0
        elif message["role"] == "tool":
            w.message(message["content"], role="tool", tool=names[answered], index=str(answered + 1))
            answered += 1
        else:
            w.message(message["content"], role=message["role"])


def write_head(w, conversation):
    if conversation.tools:
        w.system("tool-declare", TOOLS_TEXT.format(compact(conversation.tools)))
    if conversation.thinking and conversation.effort:
        w.system("thinking-effort", EFFORT_TEXT.format(conversation.effort))


def write_tail(w, conversation):
    if conversation.tool_choice in CHOICE_TEXT:
        w.system("tool-choice", CHOICE_TEXT[conversation.tool_choice])
    if conversation.response_format:
        kind = conversation.response_format["type"]
        text = FORMAT_TEXT.format(kind)
        if kind == "json_schema":
            text += SCHEMA_TEXT.format(compact(conversation.response_format["json_schema"]["schema"]))
        w.system("response-format", text)


def prompt_ids(tokenizer, conversation):
    """A prompt that ends with the opened reply."""
    w = Writer(tokenizer)
    write_head(w, conversation)
    write_messages(w, conversation.messages, conversation.thinking)
    write_tail(w, conversation)
    open_reply(w, conversation.thinking)
    return w.ids


def training_ids(tokenizer, conversation):
    """(ids, learn) of a whole conversation. What a prompt has at its end stands before the last assistant turn."""
    w = Writer(tokenizer)
    last = max(i for i, m in enumerate(conversation.messages) if m["role"] == "assistant")
    write_head(w, conversation)
    write_messages(w, conversation.messages[:last], conversation.thinking)
    write_tail(w, conversation)
    write_messages(w, conversation.messages[last:], conversation.thinking)
    return w.ids, w.learn


def parse_reply(tokenizer, ids, thinking):
    """(think, response, calls) of a well-formed reply, or None. For measuring: a server reads leniently."""
    text = tokenizer.decode(ids)
    if not text.endswith("<|close|>message<|sep|><|end_of_msg|>"):
        return None
    text, think = text.removesuffix("<|close|>message<|sep|><|end_of_msg|>"), None
    if thinking:
        think, found, text = text.partition("<|close|>think<|sep|><|open|>response<|sep|>")
        if not found:
            return None
    response, found, rest = text.partition("<|close|>response<|sep|>")
    calls = parse_calls(rest)
    if not found or calls is None or "<|" in response or "<|" in (think or ""):
        return None
    return think, response, calls


def tiles(pattern, text):
    """The groups of the matches that lie end to end and cover `text`."""
    at, groups = 0, []
    while at < len(text):
        match = pattern.match(text, at)
        if not match:
            raise ValueError(f"no element at {text[at : at + 40]!r}")
        groups.append(match.groups())
        at = match.end()
    return groups


def parse_calls(text):
    """[(name, {key: value})] of a tools block; [] of nothing, None of anything else."""
    if not text:
        return []
    block = TOOLS.fullmatch(text)
    try:
        return [(name, parse_arguments(body)) for name, body in tiles(CALL, block[1])] if block else None
    except ValueError:
        return None


def parse_arguments(body):
    return {k: value if kind == "string" else json.loads(value) for k, kind, value in tiles(ARGUMENT, body)}
