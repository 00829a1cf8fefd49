#!/usr/bin/env python3
"""Compares the reference with every recorded value of the k3-mini golden folder and prints a table.

Float32 runs are compared end to end. In bfloat16 only single modules are (each is fed its recorded input), and the
whole model with selection biases so strong that rounding cannot change the experts. Exit code 1 if a bound is missed.
"""

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

import k3
from config import read_image_token
from model import Options
from moe import LatentMoe, scores

# The bounds are those of the golden folder's README.
LOGIT_ROW, LOGIT_MEDIAN, INNER = 3e-4, 3e-5, 2e-5
BF16_MODULE = 1e-2
NEAR_TIE = 1e-3
CLEAR_MARGIN = 1e-3
PROMPTS = ("single", "short", "medium", "long")


def relative_l2(ours, golden):
    """Of everything at once."""
    return float((ours.float() - golden).norm() / golden.norm())


def rows_relative_l2(ours, golden):
    return ((ours.float() - golden).norm(dim=-1) / golden.norm(dim=-1)).flatten()


class Table:
    """Lines `what, error, bound`; remembers whether any bound was missed."""

    def __init__(self):
        self.failed = 0

    def add(self, what, error, bound, note=""):
        good = error <= bound  # a NaN is not
        self.failed += not good
        print(f"{what:<58} {error:10.2e} {bound:10.2e}  {'ok' if good else 'MISSED'}  {note}")

    def heading(self, text):
        print(f"\n{text:<58} {'error':>10} {'bound':>10}")


@dataclass
class Golden:
    folder: Path
    tensors: dict = field(init=False)
    facts: dict = field(init=False)

    def __post_init__(self):
        self.tensors = load_file(self.folder / "golden.safetensors")
        self.facts = json.loads((self.folder / "golden.json").read_text())

    def __getitem__(self, name):
        return self.tensors[name]

    def prompt(self, name):
        return torch.tensor([self.facts["prompts"][name]])


class Recorder:
    """Keeps inputs and outputs of a model's modules during one forward pass."""

    def __init__(self, model):
        trunk = model.language_model.model
        self.seen = {}
        self.handles = [trunk.norm.register_forward_hook(self._keep("final"))]
        for i, layer in enumerate(trunk.layers):
            self.handles.append(layer.self_attn.register_forward_hook(self._keep(f"layers.{i}.attn")))
            self.handles.append(layer.ffn.register_forward_hook(self._keep(f"layers.{i}.ffn")))
            if isinstance(layer.ffn, LatentMoe):
                self.handles.append(layer.ffn.gate.register_forward_hook(self._keep_experts(i)))
        self.trunk, self.plain_step = trunk, trunk.layer_step
        trunk.layer_step = self._layer_step

    def _keep(self, name):
        def hook(module, inputs, output):
            self.seen[f"{name}_in"] = inputs[0][0]
            self.seen[f"{name}_out"] = (output[0] if isinstance(output, tuple) else output)[0]

        return hook

    def _keep_experts(self, i):
        def hook(module, inputs, output):
            self.seen |= sorted_experts(f"layers.{i}", *output)

        return hook

    def _layer_step(self, i, *args):
        p, bank, state = self.plain_step(i, *args)
        self.seen[f"layers.{i}.prefix"] = p[0]
        self.seen["bank"] = torch.stack([b[0] for b in bank], dim=1)
        self.seen |= kda_values(f"layers.{i}", state)
        return p, bank, state

    def __enter__(self):
        return self.seen

    def __exit__(self, *_):
        self.trunk.layer_step = self.plain_step
        for handle in self.handles:
            handle.remove()


def sorted_experts(prefix, ids, weights):
    order = ids.argsort(dim=-1)
    return {f"{prefix}.expert_ids": ids.gather(-1, order), f"{prefix}.expert_weights": weights.gather(-1, order)}


def kda_values(prefix, state):
    """The recorded names of a KDA state; nothing for an MLA cache."""
    if not hasattr(state, "s"):
        return {}
    return {f"{prefix}.state": state.s[0]} | {f"{prefix}.conv_{c}": getattr(state, f"conv_{c}")[0] for c in "qkv"}


def check_logits(table, golden, model):
    table.heading("float32, whole model: logits, relative L2 a row")
    rows = []
    for name in PROMPTS:
        logits, _ = model(golden.prompt(name))
        rows.append(rows_relative_l2(logits[0, golden.facts["logit_rows"][name]], golden[f"f32.{name}.logits"]))
        table.add(f"{name}: worst of {len(rows[-1])} rows", float(rows[-1].max()), LOGIT_ROW)
    table.add("median of all rows", float(torch.cat(rows).median()), LOGIT_MEDIAN)


def check_token_by_token(table, golden, model):
    table.heading("float32, one token at a time with carried state")
    for name in PROMPTS:
        states, logits = None, []
        for token in golden.prompt(name)[0]:
            row, states = model(token.view(1, 1), states)
            logits.append(row[0, 0])
        ours = torch.stack(logits)[golden.facts["logit_rows"][name]]
        table.add(f"{name}: worst row", float(rows_relative_l2(ours, golden[f"f32.{name}.logits"]).max()), LOGIT_ROW)


def check_inner(table, golden, model, name):
    """Every recorded value of `name` but the logits: inner values, experts, states, bank."""
    table.heading(f"float32, inner values of {name}: relative L2, worst layer")
    with Recorder(model) as seen:
        model(golden.prompt(name))
    prefix, worst = f"f32.{name}.", {}
    for key in [key for key in golden.tensors if key.startswith(prefix) and not key.endswith(".logits")]:
        short = key.removeprefix(prefix)
        ours = seen["final_out" if short == "final_normed" else short]
        if len(ours) != len(golden[key]):
            ours = ours[golden.facts["logit_rows"][name]]
        if short.endswith(".expert_ids"):
            error = float((ours != golden[key]).sum())
        else:
            error = relative_l2(ours, golden[key])
        worst.setdefault(short.split(".")[-1], []).append(error)
    bound = INNER if name == "short" else LOGIT_ROW  # the README bounds inner values of `short` only
    for kind, errors in worst.items():
        table.add(f"{kind} ({len(errors)} recorded)", max(errors), 0 if kind == "expert_ids" else bound)


def check_greedy(table, golden, model):
    table.heading("float32, greedy continuations: wrong ids before the first unclear margin")
    for name in PROMPTS:
        expected = golden.facts["greedy"][f"f32.{name}"]
        ids, _ = k3.greedy(model, golden.facts["prompts"][name], len(expected["ids"]))
        clear = next((i for i, m in enumerate(expected["margins"]) if m < CLEAR_MARGIN), len(ids))
        wrong = sum(a != b for a, b in zip(ids[:clear], expected["ids"][:clear]))
        table.add(name, wrong, 0, f"{clear} of {len(ids)} ids compared")


def image_rows(golden, merge):
    """How many embeddings each image has: patches of its grid over the merge kernel, frames pooled."""
    return [int(h * w) // merge for _, h, w in golden["image.grid_thw"]]


def check_image(table, golden, model):
    table.heading("float32, images given as features")
    vision = json.loads((golden.folder / "config.json").read_text())["vision_config"]
    merge = vision["merge_kernel_size"][0] * vision["merge_kernel_size"][1]
    features = golden["f32.image.features"].split(image_rows(golden, merge))
    x = k3.with_images(model, golden.facts["image_prompt"], read_image_token(golden.folder), features)
    normed, _ = model.hidden(x)
    rows = rows_relative_l2(model.language_model.lm_head(normed)[0], golden["f32.image.logits"])
    table.add(f"worst of {len(rows)} rows", float(rows.max()), LOGIT_ROW)


def misplaced_experts(moe, x, ids, golden_ids):
    """Rows whose experts differ although no two biased scores across the boundary are nearly equal."""
    biased = scores(x, moe.gate.weight) + moe.gate.e_score_correction_bias
    wrong = 0
    for row, ours, theirs in zip(biased, ids.tolist(), golden_ids.tolist()):
        only_ours, only_theirs = set(ours) - set(theirs), set(theirs) - set(ours)
        wrong += any(abs(float(row[a] - row[b])) >= NEAR_TIE for a in only_ours for b in only_theirs)
    return wrong


def check_bf16_modules(table, golden, model):
    table.heading("bfloat16, each module fed its recorded input: worst layer")
    worst = {}

    def note(kind, key, ours):
        worst.setdefault(kind, []).append(relative_l2(ours, golden[key]))

    for i, layer in enumerate(model.language_model.model.layers):
        prefix = f"bf16.short.layers.{i}"
        y, state = layer.self_attn(golden[f"{prefix}.attn_in"].bfloat16()[None])
        kind = type(layer.self_attn).__name__
        note(f"{kind} output", f"{prefix}.attn_out", y[0])
        for key, value in kda_values(prefix, state).items():
            note(f"{kind} {key.split('.')[-1]}", key, value)
        x = golden[f"{prefix}.ffn_in"].bfloat16()
        note(f"{type(layer.ffn).__name__} output", f"{prefix}.ffn_out", layer.ffn(x[None])[0])
        if hasattr(layer, "block_sparse_moe"):
            experts = sorted_experts(prefix, *layer.block_sparse_moe.gate(x))
            ids, golden_ids = experts[f"{prefix}.expert_ids"], golden[f"{prefix}.expert_ids"]
            wrong = misplaced_experts(layer.block_sparse_moe, x, ids, golden_ids)
            worst.setdefault("expert ids", []).append(wrong)
            same = (ids == golden_ids).all(-1)
            theirs = golden[f"{prefix}.expert_weights"][same]
            error = relative_l2(experts[f"{prefix}.expert_weights"][same], theirs)
            worst.setdefault("expert weights", []).append(error)
    for kind, errors in worst.items():
        table.add(f"{kind} ({len(errors)} layers)", max(errors), 0 if kind == "expert ids" else BF16_MODULE)


class Recorded(nn.Module):
    """Stands in for a block: returns its recorded output, keeps what it was given."""

    def __init__(self, output, with_state):
        super().__init__()
        self.output, self.with_state, self.given = output[None], with_state, None

    def forward(self, x, state=None):
        self.given = x[0]
        return (self.output, state) if self.with_state else self.output


def check_bf16_residuals(table, golden, model):
    """The residual stream alone: every block replaced by its recorded output. Destroys `model`'s blocks."""
    table.heading("bfloat16, residual stream over recorded block outputs: worst layer")
    trunk, p = model.language_model.model, "bf16.short"
    for i, layer in enumerate(trunk.layers):
        layer.self_attn = Recorded(golden[f"{p}.layers.{i}.attn_out"].bfloat16(), True)
        ffn = "mlp" if hasattr(layer, "mlp") else "block_sparse_moe"
        setattr(layer, ffn, Recorded(golden[f"{p}.layers.{i}.ffn_out"].bfloat16(), False))
    with Recorder(model) as seen:
        logits, _ = model(golden.prompt("short"))
    layers = range(len(trunk.layers))
    for kind in ("attn_in", "ffn_in", "prefix"):
        names = [f"layers.{i}.{kind}" for i in layers]
        table.add(kind, max(relative_l2(seen[n], golden[f"{p}.{n}"]) for n in names), BF16_MODULE)
    table.add("bank", relative_l2(seen["bank"], golden[f"{p}.bank"]), BF16_MODULE)
    table.add("final_in", relative_l2(seen["final_in"], golden[f"{p}.final_in"]), BF16_MODULE)
    table.add("final_normed", relative_l2(seen["final_out"], golden[f"{p}.final_normed"]), BF16_MODULE)
    table.add("logits", relative_l2(logits[0], golden[f"{p}.logits"]), BF16_MODULE)


def set_steady_biases(golden, model):
    for name, parameter in model.named_parameters():
        if f"steady.{name}" in golden.tensors:
            parameter.copy_(golden[f"steady.{name}"])


def check_steady(table, golden, model, p):
    """`p`: f32 within the logits' bounds; bf16 no farther from the recorded values than those are from float32."""
    table.heading(f"{p}, whole model with steady routing: logits, relative L2 a row")
    set_steady_biases(golden, model)
    for name in ("short", "medium"):
        logits, _ = model(golden.prompt(name))
        rows = rows_relative_l2(logits[0, golden.facts["logit_rows"][name]], golden[f"{p}.steady.{name}.logits"])
        if p == "f32":
            table.add(f"{name}: worst of {len(rows)} rows", float(rows.max()), LOGIT_ROW)
            continue
        bound = torch.tensor(golden.facts["steady_bf16_rel_rmse"][name])
        table.add(f"{name}: mean row", float(rows.mean()), float(bound.mean()))
        table.add(f"{name}: worst row", float(rows.max()), float(bound.max()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the k3-mini golden folder")
    parser.add_argument("--chunk", type=int, help="compute KDA in chunks of this many tokens")
    args = parser.parse_args()
    torch.set_num_threads(1)
    golden, table = Golden(args.folder), Table()

    model = k3.load(args.folder, Options(kda_chunk=args.chunk))
    check_logits(table, golden, model)
    check_token_by_token(table, golden, model)
    for name in PROMPTS:
        check_inner(table, golden, model, name)
    check_greedy(table, golden, model)
    check_image(table, golden, model)
    check_steady(table, golden, model, "f32")

    model = k3.load(args.folder, Options(dtype=torch.bfloat16, kda_chunk=args.chunk))
    check_bf16_modules(table, golden, model)
    check_steady(table, golden, model, "bf16")
    check_bf16_residuals(table, golden, k3.load(args.folder, Options(dtype=torch.bfloat16)))
    print(f"\n{table.failed} bounds missed")
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
