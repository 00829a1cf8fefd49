"""Conversations as padded batches of ids. A row is one conversation, so its states start empty as they do when the
model is used; conversations of like length share a batch, which keeps the padding small.
"""

from dataclasses import dataclass

import torch

import chat
import world
from task import seeded

POOL = 256  # conversations that are sorted by length and cut into batches together
LONGEST = 1536  # ids; the few longer conversations are left out


@dataclass
class Batch:
    ids: torch.Tensor  # [B, T]
    targets: torch.Tensor  # [B, T]: the next id where it is to be learnt, else -1
    abilities: list  # of each row

    @property
    def tokens(self):
        return self.ids.numel()


def pool_of(tokenizer, seed, number, progress):
    """[(ids, learn, ability)] of the pool with this number, shortest first."""
    rows = []
    for index in range(number * POOL, (number + 1) * POOL):
        ability, conversation = world.training_conversation(seed, index, progress)
        ids, learn = chat.training_ids(tokenizer, conversation)
        if len(ids) <= LONGEST:
            rows.append((ids, learn, ability))
    return sorted(rows, key=lambda row: len(row[0]))


def padded(rows, pad):
    width = max(len(ids) for ids, _, _ in rows) - 1
    width += -width % 32
    ids = torch.full((len(rows), width), pad)
    targets = torch.full((len(rows), width), -1)
    for i, (row, learn, _) in enumerate(rows):
        ids[i, : len(row) - 1] = torch.tensor(row[:-1])
        learnt = [token if marked else -1 for token, marked in zip(row[1:], learn[1:])]
        targets[i, : len(learnt)] = torch.tensor(learnt)
    return Batch(ids, targets, [ability for _, _, ability in rows])


def batches_of(tokenizer, seed, number, progress, most_tokens):
    """The pool's batches in random order."""
    batches, rows = [], []
    for row in pool_of(tokenizer, seed, number, progress):
        if rows and (len(rows) + 1) * len(row[0]) > most_tokens:
            batches.append(padded(rows, tokenizer.special["[PAD]"]))
            rows = []
        rows.append(row)
    batches.append(padded(rows, tokenizer.special["[PAD]"]))
    seeded("order", seed, number).shuffle(batches)
    return batches
