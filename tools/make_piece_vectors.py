#!/usr/bin/env python3
"""Makes tests/data/text/pieces.json: pieces of random and adversarial texts as tiktoken 0.14.0 cuts them with K3's
pattern ("pieces"), and byte strings in hexadecimal with what Python 3 decodes them to with errors="replace", as a whole
and as the beginning of a stream ("repaired").

  python3 -m venv venv && venv/bin/pip install tiktoken==0.14.0
  venv/bin/python tools/make_piece_vectors.py tests/data/text/pieces.json
"""
import argparse
import codecs
import itertools
import json
import random
from pathlib import Path

import tiktoken

UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
BEFORE = r"[^\r\n\p{L}\p{N}]?"
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PATTERN = "|".join([
    r"[\p{Han}]+",
    BEFORE + UPPER + "*" + LOWER + "+" + CONTRACTION,
    BEFORE + UPPER + "+" + LOWER + "*" + CONTRACTION,
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
    r"\s+(?!\S)",
    r"\s+",
])

# Every kind of character that the pattern tells apart; the second half are the rarer ones: Lt, Lm, Lo, Han that is a
# number (U+3007), a symbol (U+2E80) or a mark (U+16FF0), marks, Nl and No, white space beyond ASCII, things that only
# look like white space, the long s and the Kelvin sign that case folding maps to ASCII.
COMMON = "aZs \t\n\r.'0<|é好"
RARE = "ǅʰ한々〇⺀\U00016FF0〆、\u0301\u0BBEⅣ²９\u0085\u00A0\u2003\u2028\u3000\v\u001C\u200B\uFEFFſ\u212A😀\U000E0100\u0378-_\"Éß"
CONTRACTIONS = ["'s", "'S", "'ſ", "'t", "'T", "'re", "'Re", "'rE", "'ve", "'VE", "'m", "'ll", "'lL", "'d", "'D", "'l",
                "'r", "'ſt", "''s", "\u2019s"]
ADVERSARIAL = [
    "a" * 300, "A" * 300, " " * 300, " " * 300 + "x", "\n" * 200, " \n" * 100 + "  x", "\u0301" * 120, "ʰ" + "A" * 100,
    "Aʰ" * 50 + "A", "\u0301" + "A" * 60 + "好", "<|" * 100, "한" * 100, "好" * 100, "1" * 100, "９" * 50, "'s" * 60,
    "'" * 100, "a\n" * 60, "\r\n" * 50 + "\t" * 50, "." * 100 + "\r\n" * 40 + " ", " ." * 60, "\t." * 60, "a1" * 60,
    "Aa" * 80, "aA" * 80, "好a" * 60, "𖿰" * 20 + "a", " 𖿰!", "!⺀a", "⺀a", "1〇1〇", "aZ\u0301Z", "\u00A0" * 40 + "a",
]
SENTENCES = [
    "I'd say they'll've come; we're sure it's HER'S, don't you? DON'T!", "AB你好c", " 你", "日本々〆", "好\u0301a",
    "１２３４", "a\u0085b", "\tcode", "if (x == 12345) {\n\treturn \"Ünïcödé\";\n}\n\n\n  // ok\r\n", " 12 345,67 ",
    "<|open|>message role=\"user\"<|sep|>Hello.<|close|>", "{\"city\": \"São Paulo\", \"n\": [1, 2e10, null]}   \n",
    "Привет, мир! Το Ελληνικό ἀλφάβητον. Ǆǅǆ हिन्दी में ภาษาไทย العربية עִבְרִית 한국어 テキスト。", "👩‍👩‍👧‍👦 ⭐️⭐️ ✨",
    "XMLHttpRequest fooBarBaz SCREAMING_CASE kebab-case 0xDEADBEEF v1.2.3-rc4", "trailing   ", "   ", "\n \n\t\n x",
]


def pieces(texts: list[str]) -> list[list[str]]:
    """tiktoken gives a piece that is a token as this one token, so a vocabulary of all substrings shows the pieces."""
    wanted = {bytes([byte]) for byte in range(256)}
    for text in texts:
        coded = [character.encode() for character in text]
        for begin in range(len(coded)):
            wanted.update(itertools.accumulate(coded[begin:]))
    ranks = {token: rank for rank, token in enumerate(sorted(wanted, key=lambda token: (len(token), token)))}
    encoding = tiktoken.Encoding("pieces", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    cut = [[encoding.decode([token]) for token in encoding.encode_ordinary(text)] for text in texts]
    assert ["".join(case) for case in cut] == texts
    return cut


def random_text(source: random.Random) -> str:
    """Runs of one kind of character make the rules that look at whole runs apply; single characters the others."""
    parts = []
    for _ in range(source.randint(1, 9)):
        kind = source.random()
        if kind < 0.12:
            parts.append(source.choice(CONTRACTIONS))
        else:
            parts.append(source.choice(COMMON if kind < 0.6 else RARE) * source.choice([1, 1, 1, 2, 3, 5]))
    return "".join(parts)


def random_bytes(source: random.Random) -> bytes:
    """Around the limits of what each byte of a sequence may be."""
    edges = [0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF,
             0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]
    parts = []
    for _ in range(source.randint(1, 5)):
        coded = chr(source.choice([0x41, 0xE9, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF])).encode()
        parts.append(coded[:source.randint(1, 4)] if source.random() < 0.5 else bytes(source.choices(edges, k=2)))
    return b"".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--texts", type=int, default=3500, help="number of random texts")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    source = random.Random(options.seed)
    texts = SENTENCES + ADVERSARIAL + [random_text(source) for _ in range(options.texts)]
    cut = [case for begin in range(0, len(texts), 500) for case in pieces(texts[begin:begin + 500])]
    samples = [random_bytes(source) for _ in range(1000)]
    stream = codecs.getincrementaldecoder("utf-8")
    repaired = [[coded.hex(), coded.decode("utf-8", "replace"), stream("replace").decode(coded)] for coded in samples]
    lines = [json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cut]
    more = [json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in repaired]
    options.output.write_text('{"pieces":[\n' + ",\n".join(lines) + '\n],"repaired":[\n' + ",\n".join(more) + "\n]}\n")


if __name__ == "__main__":
    main()
