"""Greedy replies to many prompts at once, by the reference's decoding with carried state.

Each prompt is read alone; then the states are stacked and the replies go on together, a token a step. Prompts differ in
length, so the stacked MLA caches have gaps: `gaps_masked` lets the reference's attention skip them.
"""

from contextlib import contextmanager

import torch

import sizes  # noqa: F401  (finds the reference)

import mla
from kda import KdaState
from mla import MlaCache


def attend_with_gaps(valid):
    """The reference's `attend` for one query a sequence; valid [B, S] says which cached tokens are there."""

    def attend(q, k, v, scale):
        scores = q.float() @ k.float().mT * scale
        weights = torch.softmax(scores.masked_fill(~valid[:, None, None, : k.shape[2]], -torch.inf), dim=-1)
        return (weights @ v.float()).to(q.dtype)

    return attend


@contextmanager
def gaps_masked(valid):
    original = mla.attend
    mla.attend = attend_with_gaps(valid)
    try:
        yield
    finally:
        mla.attend = original


def stacked(states):
    """States of single sequences, layer by layer, as one state of a batch; MLA caches padded at their end."""
    layers = []
    for layer in zip(*states):
        if isinstance(layer[0], KdaState):
            fields = ("conv_q", "conv_k", "conv_v", "s")
            layers.append(KdaState(*(torch.cat([getattr(s, f) for s in layer]) for f in fields)))
        else:
            longest = max(s.latent.shape[1] for s in layer)
            layers.append(MlaCache(*(padded([getattr(s, f) for s in layer], longest) for f in ("latent", "k_r"))))
    return layers


def padded(tensors, length):
    return torch.cat([torch.nn.functional.pad(t, (0, 0, 0, length - t.shape[1])) for t in tensors])


@torch.no_grad()
def replies(model, prompts, end, most_tokens):
    """Ids behind each prompt up to and including `end`, or `most_tokens` of them."""
    firsts, states = [], []
    for prompt in prompts:
        logits, state = model(torch.tensor([prompt]))
        firsts.append(logits[0, -1].argmax())
        states.append(state)
    state, ids = stacked(states), torch.stack(firsts)[:, None]
    longest = max(map(len, prompts))
    valid = torch.arange(longest)[None] < torch.tensor([[len(p)] for p in prompts])
    valid = torch.cat([valid, torch.ones(len(prompts), most_tokens, dtype=torch.bool)], dim=1)
    with gaps_masked(valid):
        while ids.shape[1] < most_tokens and not (ids == end).any(1).all():
            logits, state = model(ids[:, -1:], state)
            ids = torch.cat([ids, logits[:, -1].argmax(-1, keepdim=True)], dim=1)
    return [cut(row.tolist(), end) for row in ids]


def cut(ids, end):
    return ids[: ids.index(end) + 1] if end in ids else ids
