"""The nano vocabulary in Python: text to ids as `perigee tokenize` does, for making training text.

Exact for the short text of training (docs/chat-format.md, "Pieces"); the cuts of very long text are left out and
refused. It reads the files of models/nano and nothing else.
"""

import base64
import json
import sys
from functools import lru_cache
from pathlib import Path

import regex

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from piece_pattern import PATTERN  # noqa: E402

MODEL_FOLDER = Path(__file__).resolve().parents[2] / "models" / "nano"
PIECE = regex.compile(PATTERN, regex.V1)
LONGEST_TEXT = 25_000  # beyond it the format cuts


class Tokenizer:
    def __init__(self, folder=MODEL_FOLDER):
        lines = (Path(folder) / "tiktoken.model").read_text(encoding="ascii").splitlines()
        self.tokens = [base64.b64decode(line.split()[0]) for line in lines]
        self.ranks = {token: rank for rank, token in enumerate(self.tokens)}
        config = json.loads((Path(folder) / "tokenizer_config.json").read_text())
        self.special = {entry["content"]: int(at) for at, entry in config["added_tokens_decoder"].items()}
        self.special_names = {at: name for name, at in self.special.items()}
        self.vocab_size = config["vocab_size"]
        self.piece_ids = lru_cache(maxsize=100_000)(self._merge)

    def _merge(self, piece):
        """Merges the neighbours whose joined bytes have the lowest rank, leftmost first."""
        raw = piece.encode()
        parts = [raw[at : at + 1] for at in range(len(raw))]
        while len(parts) > 1:
            last = len(self.tokens)
            rank, at = min((self.ranks.get(parts[i] + parts[i + 1], last), i) for i in range(len(parts) - 1))
            if rank == last:
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return [self.ranks[part] for part in parts]

    def encode(self, text):
        """Ids of plain text; nothing in it becomes a special token."""
        if len(text) > LONGEST_TEXT:
            raise ValueError(f"a text of {len(text)} characters would be cut by the format; at most {LONGEST_TEXT}")
        return [token for piece in PIECE.findall(text) for token in self.piece_ids(piece)]

    def name_of_special(self, token):
        return self.special_names.get(token, f"<|reserved_token_{token}|>")

    def decode(self, ids):
        parts = (self.tokens[t] if t < len(self.tokens) else self.name_of_special(t).encode() for t in ids)
        return b"".join(parts).decode("utf-8", errors="replace")
