"""What a generator of the nano world makes: a task with its prompts and the replies that are right.

Keys decide whether training may see a task: the same rule always puts a key on the same side, so the sets that train
and measure cannot share one. Every generator chooses as keys what must be new when it is measured.
"""

import hashlib
import json
import random
import re
from dataclasses import dataclass, field
from pathlib import Path

EFFORTS = ("low", "high", "max")
HELD_OUT_OF = 12  # one key in so many is held out
WORDS_FILE = Path(__file__).resolve().parent.parent / "nano_text" / "words.txt"


def held_out(key):
    return hashlib.blake2b(key.encode(), digest_size=8).digest()[0] % HELD_OUT_OF == 0


def read_words():
    lines = WORDS_FILE.read_text(encoding="utf-8").splitlines()
    pairs = (line.split(": ", 1) for line in lines if line and not line.startswith("# "))
    return {category: words.split() for category, words in pairs}


WORDS = read_words()


@dataclass
class Round:
    """Messages that come in, then what the assistant thinks (by effort), says and calls."""

    incoming: list
    thinks: dict
    response: str
    calls: list = field(default_factory=list)  # (name, arguments)
    aloud: str = ""  # the response without thinking, where it is another one

    def assistant(self, level):
        message = {"role": "assistant", "content": self.response if level or not self.aloud else self.aloud}
        if level:
            message["reasoning_content"] = self.thinks[level]
        if self.calls:
            message["tool_calls"] = [call_message(i, *call) for i, call in enumerate(self.calls)]
        return message


def call_message(index, name, arguments):
    text = json.dumps(arguments, ensure_ascii=False)
    return {"id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": text}}


@dataclass
class Task:
    ability: str
    keys: list  # training sees a task if none is held out; it is measured on tasks of which all are
    rounds: list
    tools: list = field(default_factory=list)
    tool_choice: str | None = None
    response_format: dict | None = None
    kind: str = ""  # a finer name for tables
    beside: list = field(default_factory=list)  # keys that training must not see either, but measuring may lack

    @property
    def plain(self):
        """Fits into any conversation."""
        return not (self.tools or self.tool_choice or self.response_format)

    def messages(self, level):
        out = []
        for r in self.rounds:
            out += [*r.incoming, r.assistant(level)]
        return out


def user(text):
    return {"role": "user", "content": text}


def simple(ability, key, question, thinks, response, **more):
    return Task(ability, [key], [Round([user(question)], thinks, response)], **more)


def draw(make, rng, measuring):
    """A task of the right side of the split. `make(rng)` returns one; most keys are on the training side."""
    while True:
        task = make(rng)
        outside = [held_out(key) for key in task.keys]
        if all(outside) if measuring else not (any(outside) or any(map(held_out, task.beside))):
            return task


def choose(rng, items):
    return items[rng.randrange(len(items))]


def with_articles(text):
    """ "a orange hat" -> "an orange hat"; u is taken for a consonant, h for one except in "hour" and "honest"."""
    text = re.sub(r"\b([Aa]) (?=[aeio]|hour|honest)(?!one)", r"\1n ", text)
    return re.sub(r"\b([Aa]) (?=um|un|ug)", r"\1n ", text)


def seeded(*parts):
    """A generator of random numbers that depends on the parts alone."""
    return random.Random(":".join(map(str, parts)))
