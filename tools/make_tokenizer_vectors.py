#!/usr/bin/env python3
"""Makes tests/data/text/tiktoken_vectors.json: ids that tiktoken gives to texts of all scripts and to adversarial ones.

The texts are drawn by a generator with a fixed seed from a few alphabets, so the same tiktoken gives the same file.

Usage: make_tokenizer_vectors.py RELEASED_TIKTOKEN_FILE OUT
Needs the PyPI package tiktoken.
"""

import base64
import json
import random
import sys
from pathlib import Path

import tiktoken

from piece_pattern import PATTERN

NANO = Path(__file__).resolve().parent.parent / "models/nano"
SLOTS = 256
SCRAPS = [
    "abcdefghij ", "ABab'sStTlLreRE\u017f", "  \t\n\r\u00a0\u3000\u0085\u2028\x1c\x1f", "0123456789\u0663\u00bd\u2163",
    "你好世界的是一不在人有我他这中大来上个国々〇〆、。", "\u0301\u0300\u0903\u20e3é", "<|>open_close[]sep|",
    "!?.,;:-_=+(){}/\\\"'", "привет мир Привет", "مرحبا بالعالم हिन्दी ไทย 한국어 かなカナ", "👩\u200d👧🇫🇷⭐\ufe0f",
    "\u01c5\u02b0ªº", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/",
]
SENTENCES = [
    "The weather service couldn't find Zürich, so it asked again: {\"city\": \"Zürich\", \"days\": 3}.\n",
    "for (std::size_t i = 0; i < n; ++i) sum += values[i];\t// 12345 items\r\n\r\n",
    "人工智能正在改变世界，模型的参数有2.8万亿。", "吾輩は猫である。名前はまだ無い。", "Съешь же ещё этих мягких французских булок.",
]


def load(file, names):
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, file.read_bytes().splitlines())}
    ordinary = len(ranks)
    specials = {names.get(i, f"<|reserved_token_{ordinary + i}|>"): ordinary + i for i in range(SLOTS)}
    return tiktoken.Encoding("vectors", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=specials)


def nano_names():
    """Offset behind the ordinary tokens -> text; the released slots are the same."""
    added = json.loads((NANO / "tokenizer_config.json").read_text())["added_tokens_decoder"]
    first = len((NANO / "tiktoken.model").read_bytes().splitlines())
    return {int(token) - first: entry["content"] for token, entry in added.items()}


def texts(dice, specials):
    for alphabet in SCRAPS:
        for length in (1, 5, 24):
            yield "".join(dice.choice(alphabet) for _ in range(length))
    for _ in range(30):
        yield "".join(dice.choice(dice.choice(SCRAPS)) for _ in range(dice.randrange(2, 30)))
    for sentence in SENTENCES:
        yield sentence
        yield sentence[dice.randrange(10):dice.randrange(12, 20)].swapcase()
    for _ in range(20):
        yield "".join(dice.choice([dice.choice(specials), dice.choice(SCRAPS)[:3], "<|", " "]) for _ in range(5))


def vectors(encoding):
    dice = random.Random(7)
    return [{"text": text, "specials": specials,
             "ids": encoding.encode(text, allowed_special="all" if specials else set(), disallowed_special=())}
            for text in texts(dice, sorted(encoding.special_tokens_set)) for specials in (False, True)
            if not specials or "<" in text or "[" in text]


def main(arguments):
    if len(arguments) != 2:
        sys.exit(__doc__)
    released, out = map(Path, arguments)
    names = nano_names()
    lists = {"released": vectors(load(released, names)), "nano": vectors(load(NANO / "tiktoken.model", names))}
    about = ("Text to ids by tiktoken with the released vocabulary and with models/nano (tools/make_tokenizer_vectors.py);"
             " specials: whether special tokens are recognised in the text")
    parts = [f'"about": {json.dumps(about)}']
    for name, cases in lists.items():
        rows = ",\n".join(json.dumps(case, ensure_ascii=True, separators=(",", ":")) for case in cases)
        parts.append(f'"{name}": [\n{rows}\n]')
    out.write_text("{" + ",\n".join(parts) + "}\n", encoding="ascii")


if __name__ == "__main__":
    main(sys.argv[1:])
