#!/usr/bin/env python3
"""Trains the nano model on the conversations of its world, on one CPU core, and can be stopped and resumed at any
time.

Routed experts are rounded to MXFP4 in every forward pass, so the released form is what was trained. Experts are
balanced by their selection biases (no auxiliary loss): after each step an expert with less than its share gets a
larger bias. The run state is written to RUN/state.pt every few minutes and at the end; starting again with the same
folder goes on from it.

The learning rate stays constant until DECAY_FROM of the tokens, then falls; so --tokens may be changed on resuming.
A run whose state is lost goes on from its checkpoint (--from, with --trained and another --seed): the weights as released, the
optimisers and the running shares of the experts anew.
"""

import argparse
import json
import signal
import sys
import time
from collections import defaultdict
from pathlib import Path

import torch
import torch.nn.functional as F

from batches import batches_of
from counting import count_choices, routers_of
from muon import Muon, optimisers
from sizes import model_config
from tokenizer import Tokenizer

import checkpoint
import fast
from initialise import initialise
from model import Model, Options

# The head starts as a smaller copy of the embedding (and is free from then on): to copy a word from the prompt a model
# then needs to carry its embedding, instead of learning for each word how its embedding becomes its logit.
EMBEDDING_STD, HEAD_SHARE = 0.1, 0.3
# What AdamW learns gets this part of the rate: a rare word's row moves by nearly the whole of it at once.
TABLE_RATE = 0.35
WARM_UP_STEPS = 60
DECAY_FROM, LAST_RATE = 0.6, 0.03  # shares of the tokens and of the learning rate
BALANCE_RATE = 2e-3
LARGEST_GRADIENT = 1.0
LOG_EVERY = 20  # steps


def new_model():
    options = Options(kda_chunk=32, fused_attention=True, quantised_experts=True)
    model = initialise(Model(model_config(), options))
    embedding, head = model.language_model.model.embed_tokens.weight, model.language_model.lm_head.weight
    with torch.no_grad():
        head.copy_(embedding.normal_(std=EMBEDDING_STD) * HEAD_SHARE)
    return model


class Balance:
    """Counts how often each expert is chosen, and corrects the selection biases."""

    def __init__(self, model):
        self.routers = routers_of(model)
        self.counts = [count_choices(router) for router in self.routers]
        experts = model.config.num_experts
        self.long = [torch.full((experts,), 1 / experts) for _ in self.routers]

    def correct(self):
        for router, counts, long in zip(self.routers, self.counts, self.long):
            share = counts / counts.sum()
            long.lerp_(share, 0.02)
            router.e_score_correction_bias.add_(BALANCE_RATE * torch.sign(1 / len(share) - share))
            counts.zero_()

    def spread(self):
        """Smallest and largest share of an expert, in parts of an equal share."""
        return [round(float(x), 2) for long in self.long for x in (long.min() * len(long), long.max() * len(long))]


class Run:
    """Everything that a checkpoint holds."""

    def __init__(self, folder, args):
        self.path = folder / "state.pt"
        self.seed, self.lr, self.total = args.seed, args.lr, args.tokens
        torch.manual_seed(args.seed)
        self.model = new_model()
        self.balance = Balance(self.model)
        self.optimisers = optimisers(self.model, args.lr)
        self.step = self.tokens = self.learnt = self.pool = 0
        if self.path.exists():
            self.load()
        elif args.start_from:
            checkpoint.load(self.model, args.start_from)
            self.tokens, self.learnt = args.trained

    @property
    def progress(self):
        return min(1.0, self.tokens / self.total)

    @property
    def rate(self):
        left = (1 - self.progress) / (1 - DECAY_FROM)
        return self.lr * min(1.0, (self.step + 1) / WARM_UP_STEPS, max(LAST_RATE, left))

    def save(self):
        state = {
            "model": self.model.state_dict(),
            "optimisers": [o.state_dict() for o in self.optimisers],
            "balance": self.balance.long,
            "step": self.step,
            "tokens": self.tokens,
            "learnt": self.learnt,
            "pool": self.pool,
            "seed": self.seed,
        }
        torch.save(state, self.path.with_suffix(".new"))
        self.path.with_suffix(".new").replace(self.path)

    def load(self):
        state = torch.load(self.path)
        self.model.load_state_dict(state["model"])
        for optimiser, saved in zip(self.optimisers, state["optimisers"]):
            optimiser.load_state_dict(saved)
        for long, saved in zip(self.balance.long, state["balance"]):
            long.copy_(saved)
        for name in ("step", "tokens", "learnt", "pool", "seed"):
            setattr(self, name, state[name])

    def learn(self, batch):
        """One step. Returns the loss of each learnt id [N] and its row [N]."""
        chosen = batch.targets >= 0
        normed, _ = self.model.hidden(self.model.embed(batch.ids))
        logits = self.model.language_model.lm_head(normed[chosen])
        losses = F.cross_entropy(logits, batch.targets[chosen], reduction="none")
        losses.mean().backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), LARGEST_GRADIENT)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = self.rate * (1 if isinstance(optimiser, Muon) else TABLE_RATE)
            optimiser.step()
            optimiser.zero_grad()
        self.balance.correct()
        self.step += 1
        self.tokens += batch.tokens
        self.learnt += len(losses)
        return losses.detach(), chosen.nonzero()[:, 0]


class Log:
    """Mean losses by ability, one JSON object a line."""

    def __init__(self, path):
        self.file = path.open("a", encoding="utf-8")
        self.clear()

    def clear(self):
        self.sums, self.ids = defaultdict(float), defaultdict(int)
        self.start, self.cpu, self.tokens = time.monotonic(), time.process_time(), 0

    def add(self, batch, losses, rows):
        for i, ability in enumerate(batch.abilities):
            mine = losses[rows == i]
            self.sums[ability] += float(mine.sum())
            self.ids[ability] += len(mine)
        self.tokens += batch.tokens

    def write(self, run):
        line = {
            "step": run.step,
            "tokens": run.tokens,
            "rate": round(run.rate, 5),
            "loss": {a: round(self.sums[a] / self.ids[a], 4) for a in sorted(self.sums)},
            "experts": run.balance.spread(),
            "tokens_per_s": round(self.tokens / (time.monotonic() - self.start)),
            "tokens_per_cpu_s": round(self.tokens / (time.process_time() - self.cpu)),
        }
        print(json.dumps(line), file=self.file, flush=True)
        self.clear()


def train(run, log, args):
    tokenizer, saved, began = Tokenizer(), time.monotonic(), time.monotonic()
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    while run.tokens < run.total and not asked and time.monotonic() - began < args.minutes * 60:
        most = args.batch_tokens * (2 if run.progress >= 0.5 else 1)
        for batch in batches_of(tokenizer, run.seed, run.pool, run.progress, most):
            if asked:
                break
            log.add(batch, *run.learn(batch))
            if run.step % LOG_EVERY == 0:
                log.write(run)
        run.pool += 1
        if time.monotonic() - saved > args.save_minutes * 60:
            run.save()
            saved = time.monotonic()
    run.save()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("run", type=Path, help="folder of the run: state.pt, log.jsonl")
    parser.add_argument("--tokens", type=int, default=20_000_000, help="length of the whole run")
    parser.add_argument("--from", dest="start_from", type=Path, help="checkpoint to start from, if RUN has no state")
    parser.add_argument(
        "--trained", type=int, nargs=2, default=(0, 0), help="ids that --from has seen, and those of them it learnt"
    )
    parser.add_argument("--batch-tokens", type=int, default=4096, help="a step; twice as many in the second half")
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save-minutes", type=float, default=5)
    parser.add_argument("--minutes", type=float, default=1e6, help="stop after this time; start again to go on")
    parser.add_argument("--no-fuse", action="store_true", help="do not compile the elementwise functions")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if not args.no_fuse:
        torch._dynamo.config.recompile_limit = 64
        fast.fuse()
    args.run.mkdir(parents=True, exist_ok=True)
    train(Run(args.run, args), Log(args.run / "log.jsonl"), args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
