#!/usr/bin/env python3
"""Writes tests/data/text/json_vectors.json: what Python's json makes of many JSON texts.

The released encoder is a Python program, so Python's json is the definition of how tools and arguments look in a
prompt. Where it is laxer than RFC 8259 (NaN, control characters in strings) the vectors say what a strict reader
does, except for the arguments of a call, where the encoder is lax too. The file depends on the seed alone.

Usage: make_json_vectors.py OUTPUT [--scale N]      (N times as many random cases, for a longer run)
"""

import argparse
import json
import math
import random
import re
import struct
import sys

SPACE = " \t\n\r"
ALPHABET = [
    "a", "B", "é", "ß", "東", "🗼", "\u2028", "\x7f", "/", " ", '"', "\\", "\n", "\t", "\r", "\b", "\f", "\0", "\x1f",
]
NUMBERS = [
    "0", "-0", "-0.0", "0.0", "0e5", "-0E-9", "1", "-7", "9007199254740993", "1" * 60, "0.10", "1.0", "2.50", "1e5",
    "1E+05", "1e-5", "1e-4", "0.0001", "0.00012", "9.999e-5", "123456789012345.6", "1e15", "1e16", "1e17",
    "9999999999999998.0", "9999999999999999.0", "99999999999999999.0", "1e22", "1e23", "5e-324", "4.9e-324",
    "2.4e-324", "2.5e-324", "1e-400", "-1e-400", "1e400", "-1E400", "1.7976931348623157e308",
    "1.7976931348623158e308", "1.7976931348623159e308", "2.2250738585072014e-308", "2.2250738585072011e-308",
    "0." + "0" * 400 + "1e401", "1" + "0" * 400 + "e-400", "0." + "0" * 400 + "1", "1" + "0" * 400 + ".0",
    "1e99999999999999999999", "1e-99999999999999999999", "0e99999999999999999999", "123456789.123456789", "0.1e1",
    "100e-2", "1.5e300", "3.14159265358979323846264338327950288", "9007199254740992.5", "0.5", "4503599627370497.5",
]
INVALID = [
    "", " ", "[", "]", "{", "}", "[1,]", "[,1]", "[,", "[1 2]", '{"a":1,}', '{"a"}', '{"a":}', '{"a" 1}', "{1:2}",
    "{a:1}", "{'a':1}", "01", "-01", "00", "+1", ".5", "1.", "-", "1e", "1e+", "0x1F", "1_0", "１２", "NaN", "Infinity",
    "-Infinity", "-I", "nul", "nulls", "True", "tru", "truefalse", '"', '"a', '"\\', '"\\"', '"\\x41"', '"\\u12"',
    '"\\u12G4"', '"\\u', '"a\nb"', '"\x01"', "\u00a01", "\ufeff1", "1 2", "{} {}", "[1]]", '{"a":1}}', "/**/1", "1//",
    "[1;2]", '{"a":1 "b":2}', '{"a",1}', '{"a":1,,"b":2}', "[}", "{]", '["a":1]', "undefined", "'a'", '"\t"', "\x0b1",
    "\x0c1",
]


def refuse_constant(name):
    raise ValueError(name)


def mend(text):
    """Python keeps lone surrogates; no UTF-8 can."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def dumps(value, **settings):
    return mend(json.dumps(value, ensure_ascii=False, **settings))


def document(text):
    """The vector of one text: its two dumps, or that it is invalid."""
    try:
        value = json.loads(text, parse_constant=refuse_constant)
    except ValueError:
        return {"text": text, "invalid": True}
    return {"text": text, "sorted": dumps(value, sort_keys=True, separators=(",", ":")), "python": dumps(value)}


def kind(literal):
    names = {'"': "string", "{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}
    return names.get(literal[0], "number")


def skip_space(text, at):
    while at < len(text) and text[at] in SPACE:
        at += 1
    return at


def members(text):
    """One level of an object by Python's decoder: [key, type, value] each; ValueError if there is none."""
    decoder = json.JSONDecoder(strict=False)
    found, at = [], skip_space(text, 0)
    if text[at:at + 1] != "{":
        raise ValueError("no object")
    at = skip_space(text, at + 1)
    if text[at:at + 1] == "}":
        return found
    while True:
        if text[at:at + 1] != '"':
            raise ValueError("no key")
        key, at = decoder.raw_decode(text, at)
        at = skip_space(text, at)
        if text[at:at + 1] != ":":
            raise ValueError("no colon")
        begin = skip_space(text, at + 1)
        value, at = decoder.raw_decode(text, begin)
        literal = text[begin:at]
        found.append([mend(key), kind(literal), mend(value) if isinstance(value, str) else literal])
        at = skip_space(text, at)
        if text[at:at + 1] == "}":
            return found
        if text[at:at + 1] != ",":
            raise ValueError("no comma")
        at = skip_space(text, at + 1)


def arguments(text):
    try:
        return {"text": text, "members": members(text)}
    except ValueError:
        return {"text": text, "raw": True}


class Writer:
    """Random JSON text with every liberty that the grammar allows."""

    def __init__(self, dice):
        self.dice = dice

    def space(self):
        return "".join(self.dice.choices(SPACE, k=self.dice.choice([0, 0, 0, 0, 1, 2])))

    def character(self, key):
        if self.dice.random() < 0.15:
            low = 0xE000 if key else 0xD800  # lone halves would make different keys equal
            return f"\\u{self.dice.choice([0x41, 0x0, 0xE9, low, low + 0x7FF, 0xFFFF]):04x}"
        if self.dice.random() < 0.05:
            return self.dice.choice(["\\ud83d\\uDE42", "\\/", "\\b", "\\f"])
        c = self.dice.choice(ALPHABET)
        return json.dumps(c)[1:-1] if c in '"\\' or c < " " else c

    def string(self, key=False):
        return '"' + "".join(self.character(key) for _ in range(self.dice.choice([0, 1, 1, 2, 3, 5]))) + '"'

    def number(self):
        if self.dice.random() < 0.4:
            return self.dice.choice([n for n in NUMBERS if len(n) < 40])
        integer = self.dice.randint(-10**6, 10**6)
        return repr(self.dice.choice([integer, self.dice.uniform(-1, 1) * 10**self.dice.randint(-12, 20)]))

    def value(self, depth):
        roll = self.dice.random()
        if depth > 0 and roll < 0.25:
            return "[" + ",".join(self.item(depth) for _ in range(self.dice.randint(0, 4))) + self.space() + "]"
        if depth > 0 and roll < 0.5:
            return self.object(depth)
        word = self.dice.choice(["true", "false", "null"])
        return self.dice.choice([self.string(), self.string(), self.number(), self.number(), word])

    def item(self, depth):
        return self.space() + self.value(depth - 1) + self.space()

    def object(self, depth):
        count = self.dice.randint(0, 4)
        pairs = [f"{self.space()}{self.string(True)}{self.space()}:{self.item(depth)}" for _ in range(count)]
        return "{" + ",".join(pairs) + self.space() + "}"

    def damaged(self, text):
        """One character inserted, replaced or removed, or the end cut off."""
        at = self.dice.randrange(len(text))
        other = self.dice.choice('[]{},:"\\0-+.eEnt \n\x01/1x')
        before, behind = text[:at], text[at + 1:]
        return self.dice.choice([before + other + text[at:], before + other + behind, before + behind, before])


def random_float(dice):
    while True:
        bits = dice.getrandbits(64)
        if dice.random() < 0.3:
            bits &= ~((1 << dice.randint(20, 52)) - 1)  # few digits, and powers of two with their uneven gaps
        value = struct.unpack("<d", struct.pack("<Q", bits))[0]
        if math.isfinite(value):
            return value


def number_literals(dice, count):
    literals = list(NUMBERS)
    for power in range(-25, 26):
        literals += [f"{dice.randint(1, 9)}e{power}", repr(2.0**power)]
    for _ in range(count):
        value = random_float(dice)
        literals.append(dice.choice([repr, "{:.17e}".format, "{:.3E}".format, "{:.25e}".format])(value))
    return [literal for literal in literals if re.fullmatch(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", literal)]


def make(scale):
    dice = random.Random(8259)
    writer = Writer(dice)
    texts = [writer.space() + writer.value(4) + writer.space() for _ in range(200 * scale)]
    texts += [writer.damaged(dice.choice(texts)) for _ in range(250 * scale)]
    tails = ["", "", " ", "x", "{}", "]"]
    objects = [writer.space() + writer.object(3) + dice.choice(tails) for _ in range(120 * scale)]
    objects += [writer.damaged(dice.choice(objects)) for _ in range(150 * scale)]
    lax = [dice.choice(objects).replace("\\n", "\n") for _ in range(40 * scale)]
    objects += [text.replace("null", "NaN").replace("true", "-Infinity") for text in lax]
    return {
        "about": "Made by tools/make_json_vectors.py with Python's json; not to be edited.",
        "documents": [document(text) for text in dict.fromkeys(INVALID + texts)],
        "numbers": [[literal, json.dumps(json.loads(literal))] for literal in number_literals(dice, 300 * scale)],
        "arguments": [arguments(text) for text in dict.fromkeys(INVALID[1:] + objects) if text],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--scale", type=int, default=1)
    options = parser.parse_args()
    sys.set_int_max_str_digits(0)
    with open(options.output, "w", encoding="utf-8") as file:
        json.dump(make(options.scale), file, ensure_ascii=False, indent=0, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
