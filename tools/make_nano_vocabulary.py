#!/usr/bin/env python3
"""Makes models/nano/: a vocabulary of 4,096 ids with the shape of the released one, small enough to be committed.

The files have the released vocabulary's format, byte order, pre-tokenization, and special slots (docs/chat-format.md),
so everything that reads that vocabulary reads this one. Byte-pair merges are learnt from tools/nano_text only, in an
order that depends on nothing but those files: the same text always gives the same bytes. It is no general
vocabulary: it knows the chat format, simple English, JSON, and numbers by their digits.

Usage: make_nano_vocabulary.py [--check] [--model FOLDER]
Needs the PyPI package `regex` (the pattern intersects character classes).
"""

import argparse
import base64
import heapq
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

import regex

from piece_pattern import PATTERN

ORDINARY_TOKENS = 3840
SPECIAL_SLOTS = 256
SPECIAL_NAMES = {  # offset behind the ordinary tokens -> text
    0: "[BOS]", 1: "[EOS]", 2: "<|end_of_msg|>", 3: "<|open|>", 4: "<|close|>", 5: "<|sep|>",
    6: "[start_header_id]", 7: "[end_header_id]", 9: "[EOT]",
    18: "<|media_begin|>", 19: "<|media_content|>", 20: "<|media_end|>", 21: "<|media_pad|>",
    65: "<osagent_mode>", 254: "[UNK]", 255: "[PAD]",
}

PIECE = regex.compile(PATTERN, regex.V1)
NUMBER = regex.compile(r"\p{N}+")

TEXT = Path(__file__).resolve().parent / "nano_text"
FRAME_WEIGHT = 200     # the chat format's own segments must become the shortest of all
TOOL_WEIGHT = 6        # JSON is repetitive in use, and rare in this text
WORD_WEIGHT = 4        # a listed word counts this often beside its uses
TEMPLATE_REPEATS = 36


def single_bytes():
    """The 256 one-byte tokens in the order of their ids: printable bytes first, as GPT-2 arranged them."""
    ranges = [(0x21, 0x7E), (0xA1, 0xAC), (0xAE, 0xFF), (0x00, 0x20), (0x7F, 0xA0), (0xAD, 0xAD)]
    return [bytes([value]) for first, last in ranges for value in range(first, last + 1)]


class Dice:
    """A small generator of our own, so that no Python version changes the text."""

    def __init__(self):
        self.state = 1

    def below(self, limit):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % limit


def meaningful_lines(name):
    lines = (TEXT / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("# ")]


def read_words():
    return {category: words.split() for category, words in
            (line.split(": ", 1) for line in meaningful_lines("words.txt"))}


def fill(template, words, dice):
    """One sentence: every {category} replaced by a word of it, every {number} by a number."""
    a, b = dice.below(100), dice.below(100)
    fixed = {"a": a, "b": b, "sum": a + b, "difference": a - b, "product": a * b}

    def value(match):
        name = match[1]
        if name in fixed:
            return str(fixed[name])
        if name in ("n", "d", "m"):
            return str(dice.below({"n": 60, "d": 9, "m": 5000}[name]) + 1)
        return words[name][dice.below(len(words[name]))]

    return regex.sub(r"\{([a-z]+)\}", value, template)


def training_segments():
    """(text, how often it counts); each is cut into pieces alone, as a prompt's segments are."""
    dice, words = Dice(), read_words()
    frames = [line.replace("\\n", "\n") for line in (TEXT / "frames.txt").read_text(encoding="utf-8").splitlines()]
    yield from ((frame, FRAME_WEIGHT) for frame in frames)
    yield from ((line, TOOL_WEIGHT) for line in meaningful_lines("tools.txt"))
    for name in ("prose.txt", "code.txt", "other_languages.txt"):
        yield (TEXT / name).read_text(encoding="utf-8"), 2
    yield from ((" " + word, WORD_WEIGHT) for category in words.values() for word in category)
    templates = meaningful_lines("templates.txt")
    yield "\n".join(fill(line, words, dice) for _ in range(TEMPLATE_REPEATS) for line in templates), 1


def pieces_of(segments):
    """Pieces to learn from. Numbers are left out: a small model calculates with digits."""
    counts = Counter()
    for text, weight in segments:
        for piece in PIECE.findall(text):
            if not NUMBER.fullmatch(piece):
                counts[piece.encode()] += weight
    return counts


def encode_piece(piece, ranks):
    """Merges the adjacent pair with the lowest rank, leftmost first, until no pair is a token."""
    parts = [piece[at:at + 1] for at in range(len(piece))]
    while len(parts) > 1:
        rank, at = min((ranks.get(parts[i] + parts[i + 1], ORDINARY_TOKENS), i) for i in range(len(parts) - 1))
        if rank == ORDINARY_TOKENS:
            break
        parts[at:at + 2] = [parts[at] + parts[at + 1]]
    return parts


def is_one_piece(token):
    """False if the token's text alone would be cut in two and so could never stand for itself."""
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return True  # part of a character
    return PIECE.fullmatch(text) is not None and len(PIECE.findall(text)) == 1


class Learner:
    """Counts adjacent pairs by their joined bytes: whichever two tokens give those bytes, they become one."""

    def __init__(self, counts):
        self.ranks = {token: rank for rank, token in enumerate(single_bytes())}
        self.counts = counts
        self.pairs = Counter()
        self.pieces_with = defaultdict(set)
        self.queue = []
        self.parts = {}
        for piece in counts:
            self.cut(piece)

    def cut(self, piece):
        parts = self.parts[piece] = encode_piece(piece, self.ranks)
        for left, right in zip(parts, parts[1:]):
            pair = left + right
            self.pairs[pair] += self.counts[piece]
            self.pieces_with[pair].add(piece)
            heapq.heappush(self.queue, (-self.pairs[pair], pair))

    def forget(self, piece):
        parts = self.parts[piece]
        for left, right in zip(parts, parts[1:]):
            pair = left + right
            self.pairs[pair] -= self.counts[piece]
            self.pieces_with[pair].discard(piece)
            heapq.heappush(self.queue, (-self.pairs[pair], pair))

    def best_pair(self):
        """The most frequent pair; of equally frequent ones the smallest in byte order."""
        while self.queue:
            negative, pair = heapq.heappop(self.queue)
            if -negative == self.pairs[pair] > 1 and pair not in self.ranks and is_one_piece(pair):
                return pair
        sys.exit("make_nano_vocabulary: the text in tools/nano_text is too short; write more")

    def learn(self, tokens):
        while len(self.ranks) < tokens:
            pair = self.best_pair()
            self.ranks[pair] = len(self.ranks)
            for piece in sorted(self.pieces_with.pop(pair)):
                self.forget(piece)
                self.cut(piece)
        return self.ranks


def check_reachable(ranks):
    for token in ranks:
        if encode_piece(token, ranks) != [token]:
            sys.exit(f"make_nano_vocabulary: token {token!r} cannot be reached by merges")


def vocabulary_text(ranks):
    return "".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items())


def tokenizer_config_text():
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    config = {
        "added_tokens_decoder": {str(ORDINARY_TOKENS + offset): {"content": text, **flags}
                                 for offset, text in SPECIAL_NAMES.items()},
        "additional_special_tokens": [text for text in SPECIAL_NAMES.values()],
        "bos_token": "[BOS]",
        "clean_up_tokenization_spaces": False,
        "eos_token": "[EOS]",
        "model_max_length": 4096,
        "pad_token": "[PAD]",
        "tokenizer_class": "TikTokenTokenizer",
        "unk_token": "[UNK]",
        "vocab_size": ORDINARY_TOKENS + SPECIAL_SLOTS,
    }
    return json.dumps(config, indent=2) + "\n"


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    arguments.add_argument("--check", action="store_true", help="write nothing; fail if the files differ")
    arguments.add_argument("--model", type=Path, default=TEXT.parent.parent / "models" / "nano", metavar="FOLDER")
    options = arguments.parse_args()

    ranks = Learner(pieces_of(training_segments())).learn(ORDINARY_TOKENS)
    check_reachable(ranks)
    outputs = {"tiktoken.model": vocabulary_text(ranks), "tokenizer_config.json": tokenizer_config_text()}
    for name, text in outputs.items():
        path = options.model / name
        if not options.check:
            path.write_text(text, encoding="ascii")
        elif not path.is_file() or path.read_text(encoding="ascii") != text:
            sys.exit(f"make_nano_vocabulary: {path} is not what tools/nano_text gives; run this without --check")


if __name__ == "__main__":
    main()
