#!/usr/bin/env python3
"""Encodes with tiktoken for `perigee bench text --peer`: a second opinion on ids, and the speed to compare with.

Stays alive and answers one JSON line to each command on standard input, so that its start is not measured and rounds
can alternate with another program's:

  text NAME BYTES\\n<that many bytes>   keeps a text           {"characters": ...}
  encode NAME\\n                        encodes it once        {"seconds": ..., "ids": ..., "sha256": ...}

Seconds are CPU time, which is time on the wall where nobody else uses the machine.
`sha256` is over the ids as little-endian 32-bit numbers. Very long texts are cut first, as the released tokenizer cuts
them (docs/chat-format.md, "Pieces"); the cutting is not part of the seconds, which favours tiktoken. Special tokens
are ordinary text here.

Usage: tiktoken_rates.py TIKTOKEN_FILE
Needs the PyPI package tiktoken.
"""

import array
import base64
import hashlib
import json
import re
import sys
import time
from pathlib import Path

import tiktoken

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from piece_pattern import PATTERN  # noqa: E402  (the folder above must be known first)

SLICE_CHARACTERS = 400_000
RUN_CHARACTERS = 25_000
# Python's \s is str.isspace, which is what the released tokenizer asks.
LONG_RUN = re.compile(rf"\s{{{RUN_CHARACTERS + 1},}}|\S{{{RUN_CHARACTERS + 1},}}")


def load(path):
    # Not tiktoken.load: it would keep a copy of the file under its name and never look again.
    lines = Path(path).read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}
    return tiktoken.Encoding("peer", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})


def cut(text):
    """The parts of `text` that are encoded alone."""
    for begin in range(0, len(text), SLICE_CHARACTERS):
        piece = text[begin:begin + SLICE_CHARACTERS]
        last = 0
        for run in LONG_RUN.finditer(piece):
            for at in range(run.start() + RUN_CHARACTERS, run.end(), RUN_CHARACTERS):
                yield piece[last:at]
                last = at
        yield piece[last:]


def encode(encoding, parts):
    begin = time.process_time()
    results = [encoding.encode_ordinary(part) for part in parts]
    seconds = time.process_time() - begin
    ids = array.array("I", [token for result in results for token in result])
    if sys.byteorder == "big":
        ids.byteswap()
    return {"seconds": seconds, "ids": len(ids), "sha256": hashlib.sha256(ids.tobytes()).hexdigest()}


def answer(value):
    print(json.dumps(value), flush=True)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    begin = time.process_time()
    encoding = load(sys.argv[1])
    answer({"version": tiktoken.__version__, "load_seconds": time.process_time() - begin})
    texts = {}
    while line := sys.stdin.buffer.readline():
        command, name, *size = line.decode().split()
        if command == "text":
            texts[name] = list(cut(sys.stdin.buffer.read(int(size[0])).decode()))
            answer({"characters": sum(map(len, texts[name]))})
        elif command == "encode":
            answer(encode(encoding, texts[name]))
        else:
            sys.exit(f"tiktoken_rates: unknown command {command}")


if __name__ == "__main__":
    main()
