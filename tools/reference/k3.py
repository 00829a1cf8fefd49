#!/usr/bin/env python3
"""The PyTorch reference of Kimi K3's text model: loads a checkpoint and continues token ids.

It exists to be read and compared with; it is not fast, keeps the whole model in memory and knows no text and no images
beyond ready-made embeddings.
"""

import argparse
import sys

import torch

import checkpoint
from config import read_config
from model import Model, Options


def load(folder, options=Options()):
    """The model in `folder`, ready to run."""
    return checkpoint.load(Model(read_config(folder), options), folder).eval().requires_grad_(False)


def greedy(model, prompt, count):
    """`count` ids after `prompt`, and at each step the margin between the first and the second logit."""
    logits, states = model(torch.tensor([prompt]))
    ids, margins = [], []
    while True:
        best = logits[0, -1].float().topk(2)
        ids.append(int(best.indices[0]))
        margins.append(float(best.values[0] - best.values[1]))
        if len(ids) == count:
            return ids, margins
        logits, states = model(torch.tensor([[ids[-1]]]), states)


def with_images(model, ids, image_token, features):
    """Embeddings [1, T, hidden] of a prompt; each image token stands for the next of `features`, [n, hidden] each."""
    pieces, images = [], iter(features)
    for token in ids:
        pieces.append(next(images) if token == image_token else model.embed(torch.tensor([token])))
    return torch.cat(pieces)[None]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="checkpoint in the released format")
    parser.add_argument("ids", type=int, nargs="+", help="token ids of the prompt")
    parser.add_argument("--count", type=int, default=16)
    parser.add_argument("--bf16", action="store_true", help="compute as released instead of in float32")
    args = parser.parse_args()
    options = Options(dtype=torch.bfloat16 if args.bf16 else torch.float32)
    ids, _ = greedy(load(args.folder, options), args.ids, args.count)
    print(*ids)
    return 0


if __name__ == "__main__":
    sys.exit(main())
