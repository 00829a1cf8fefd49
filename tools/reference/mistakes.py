#!/usr/bin/env python3
"""Makes each mistake of the k3-mini README's table and shows what it does to all logits of `medium`.

The reference has no switches for being wrong: every mistake replaces one of its functions for the time of one run.
An effect other than the recorded one means that the reference, or our idea of the mistake, is wrong (exit code 1).
"""

import argparse
import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

import k3
import kda
import layers
import mla
import moe
import mxfp4
import residuals
from check_k3_mini import Golden, relative_l2
from model import Trunk


@dataclass
class Mistake:
    name: str
    recorded: float  # the README's number
    change: object  # (model, patch) -> None, called before the run; patch(object, name, value) is undone after it
    reload: bool = False  # the change takes effect while loading


MISTAKES = []
TOLERANCE, NOISE = 0.05, 1.3e-5  # the README rounds to two digits


def mistake(name, recorded, reload=False):
    def register(change):
        MISTAKES.append(Mistake(name, recorded, change, reload))
        return change

    return register


# --- KDA


@mistake("A_log per channel", 0.80)
def _(model, patch):
    def wrong(g, a_log, dt_bias, lower_bound):
        channels = F.pad(a_log, (0, g.shape[-1] - a_log.numel()))  # the zeros that pad the stored tensor
        return lower_bound * torch.sigmoid(torch.exp(channels) * (g + dt_bias.view(g.shape[-2:])))

    patch(kda, "log_decay", wrong)


@mistake("dt_bias outside the exponentiated factor", 0.82)
def _(model, patch):
    def wrong(g, a_log, dt_bias, lower_bound):
        return lower_bound * torch.sigmoid(torch.exp(a_log)[:, None] * g + dt_bias.view(g.shape[-2:]))

    patch(kda, "log_decay", wrong)


@mistake("softplus gate instead of the bounded one", 0.87)
def _(model, patch):
    def wrong(g, a_log, dt_bias, lower_bound):
        return -torch.exp(a_log)[:, None] * F.softplus(g + dt_bias.view(g.shape[-2:]))

    patch(kda, "log_decay", wrong)


@mistake("decay after the update", 0.97)
def _(model, patch):
    def wrong(s, q, k, v, alpha, beta):
        u = beta[..., None] * (v - torch.einsum("bhkv,bhk->bhv", s, k))
        s = alpha[..., None] * (s + k[..., None] * u[..., None, :])
        return torch.einsum("bhkv,bhk->bhv", s, q), s

    patch(kda, "step", wrong)


@mistake("q scaled before its normalisation", 0.70)
def _(model, patch):
    patch(kda, "normalised_query", lambda q: kda.l2_normalised(q * q.shape[-1] ** -0.5))


@mistake("no q/k normalisation", 1.04)
def _(model, patch):
    patch(kda, "l2_normalised", lambda x: x)


def _patch_conv(patch, change):
    plain = kda.short_conv
    patch(kda, "short_conv", lambda x, weight, past: change(plain, x, weight, past))


@mistake("convolution taps reversed", 1.07)
def _(model, patch):
    _patch_conv(patch, lambda plain, x, weight, past: plain(x, weight.flip(-1), past))


@mistake("convolution without SiLU", 1.05)
def _(model, patch):
    def wrong(plain, x, weight, past):
        padded = torch.cat([past, x], dim=1).mT
        return F.conv1d(padded, weight, groups=weight.shape[0]).mT, past

    _patch_conv(patch, wrong)


@mistake("KDA output gate SiLU", 1.02)
def _(model, patch):
    patch(kda, "gated_norm", lambda o, z, weight, eps: layers.rms_norm(o, weight, eps) * F.silu(z))


@mistake("gate before the norm", 0.84)
def _(model, patch):
    patch(kda, "gated_norm", lambda o, z, weight, eps: layers.rms_norm(o * torch.sigmoid(z), weight, eps))


@mistake("b_proj 2 % off", 0.15)
def _(model, patch):
    for layer in model.language_model.model.layers:
        if isinstance(layer.self_attn, kda.Kda):
            weight = layer.self_attn.b_proj.weight
            patch(weight, "data", weight.data * 1.02)


# --- MLA and norms


@mistake("MLA LoRA norms with eps 1e-5", 0.20)
def _(model, patch):
    for layer in model.language_model.model.layers:
        if isinstance(layer.self_attn, mla.Mla):
            patch(layer.self_attn.q_a_layernorm, "eps", 1e-5)
            patch(layer.self_attn.kv_a_layernorm, "eps", 1e-5)


@mistake("layer norms (input_layernorm) with eps 1e-6", 2.7e-4)
def _(model, patch):
    for layer in model.language_model.model.layers:
        patch(layer.input_layernorm, "eps", 1e-6)


@mistake("rotary on the rope dims", 0.49)
def _(model, patch):
    def rotated(x, positions):
        """Neighbours are pairs, base 10000."""
        half = x.shape[-1] // 2
        angle = positions[:, None] * 10000.0 ** (-torch.arange(half) / half)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], dim=-1).flatten(-2)

    plain, nope = mla.attend, model.config.qk_nope_head_dim

    def wrong(q, k, v, scale):
        at = torch.arange(k.shape[2])
        q = torch.cat([q[..., :nope], rotated(q[..., nope:], at[-q.shape[2] :])], dim=-1)
        k = torch.cat([k[..., :nope], rotated(k[..., nope:], at)], dim=-1)
        return plain(q, k, v, scale)

    patch(mla, "attend", wrong)


@mistake("MLA scale from nope dims only", 0.29)
def _(model, patch):
    patch(mla, "softmax_scale", lambda config: config.qk_nope_head_dim**-0.5)


@mistake("MLA without output gate", 0.66)
def _(model, patch):
    patch(mla, "output_gate", lambda a, z: a)


# --- Mixture of experts


@mistake("weights from biased scores", 0.23)
def _(model, patch):
    plain = moe.routing_weights
    patch(moe, "routing_weights", lambda s, ids, bias, factor: plain(s + bias, ids, bias, factor))


@mistake("selection without bias", 0.72)
def _(model, patch):
    plain = moe.select
    patch(moe, "select", lambda s, bias, top_k: plain(s, 0, top_k))


@mistake("softmax router weights", 0.67)
def _(model, patch):
    def wrong(s, ids, bias, factor):
        p = torch.softmax(torch.logit(s), dim=-1).gather(-1, ids)
        return p / p.sum(-1, keepdim=True) * factor

    patch(moe, "routing_weights", wrong)


@mistake("no renormalisation", 3e-6)
def _(model, patch):
    patch(moe, "routing_weights", lambda s, ids, bias, factor: s.gather(-1, ids) * factor)


def _patch_routed(model, patch, wrong):
    patch(moe.LatentMoe, "routed", wrong)


@mistake("routed norm before the experts", 0.90)
def _(model, patch):
    def wrong(self, x):
        z = self.routed_expert_norm(self.routed_expert_down_proj(x))
        return self.routed_expert_up_proj(self.experts(z, *self.gate(x)))

    _patch_routed(model, patch, wrong)


@mistake("routed norm missing", 0.88)
def _(model, patch):
    def wrong(self, x):
        return self.routed_expert_up_proj(self.experts(self.routed_expert_down_proj(x), *self.gate(x)))

    _patch_routed(model, patch, wrong)


@mistake("w1/w3 swapped", 0.82)
def _(model, patch):
    patch(moe.Experts, "matrices", lambda self: (self.w3, self.w2, self.w1))


def _patch_situ(patch, wrong):
    patch(moe, "situ", wrong)
    patch(layers, "situ", wrong)


@mistake("SiTU without tanh on up", 0.19)
def _(model, patch):
    _patch_situ(patch, lambda g, u, beta, linear_beta: beta * torch.tanh(g / beta) * torch.sigmoid(g) * u)


@mistake("SiLU instead of SiTU's gate", 0.70)
def _(model, patch):
    _patch_situ(patch, lambda g, u, beta, linear_beta: F.silu(g) * linear_beta * torch.tanh(u / linear_beta))


@mistake("nibbles swapped", 0.89, reload=True)
def _(model, patch):
    plain = mxfp4.nibbles
    patch(mxfp4, "nibbles", lambda packed: plain(packed << 4 | packed >> 4))


# --- Attention residuals


@mistake("final attention residual left out", 1.12)
def _(model, patch):
    patch(Trunk, "final_mix", lambda self, p, bank: p)


@mistake("residual mix of normalised sources", 1.06)
def _(model, patch):
    def wrong(prefix, bank, proj, norm):
        normed = norm(torch.stack([*bank, prefix]))
        return residuals.mixed(normed, torch.softmax((normed * proj.weight[0]).sum(-1), dim=0))

    patch(residuals, "attn_res", wrong)


@mistake("residual scores without the norm's weight", 0.81)
def _(model, patch):
    plain = residuals.source_scores
    patch(residuals, "source_scores", lambda v, proj, norm, eps: plain(v, proj, torch.ones_like(norm), eps))


@mistake("block start off by one", 1.08)
def _(model, patch):
    patch(residuals, "starts_block", lambda layer, size: layer == 0 or layer % size == size - 1)


@mistake("prefix not reset at a block start", 1.03)
def _(model, patch):
    patch(Trunk, "add_attention", lambda self, p, a, starts: p + a)


@contextlib.contextmanager
def patching():
    """Yields patch(object, name, value); all of them are undone at the end, last first."""
    undo = []

    def patch(target, name, value):
        undo.append((target, name, getattr(target, name)))
        setattr(target, name, value)

    try:
        yield patch
    finally:
        for target, name, value in reversed(undo):
            setattr(target, name, value)


def effect_of(entry, folder, model, ids, right):
    """Relative L2 between the logits under one mistake and the right ones."""
    with patching() as patch:
        entry.change(model, patch)
        wrong = k3.load(folder) if entry.reload else model
        return relative_l2(wrong(ids)[0], right)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the k3-mini golden folder")
    args = parser.parse_args()
    torch.set_num_threads(1)
    ids = Golden(args.folder).prompt("medium")
    model = k3.load(args.folder)
    right, _ = model(ids)
    differing = 0
    print(f"{'mistake':<46} {'effect':>9} {'recorded':>9}")
    for entry in MISTAKES:
        effect = effect_of(entry, args.folder, model, ids, right)
        same = abs(effect - entry.recorded) <= max(TOLERANCE * entry.recorded, NOISE)
        differing += not same
        print(f"{entry.name:<46} {effect:9.3g} {entry.recorded:9.3g}{'' if same else '  DIFFERS'}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
