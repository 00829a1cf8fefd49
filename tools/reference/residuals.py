"""Attention residuals: what a block reads is a per-token mix of earlier residual sums, chosen by a softmax.

A block of `attn_res_block_size` layers shares one running sum, the prefix. At a block start the prefix so far moves
to the bank and a new one begins with the attention output alone.
"""

import torch


def source_scores(sources, proj_weight, norm_weight, eps):
    """sources [n, ..., D] float32 -> [n, ...]."""
    inverse_rms = torch.rsqrt(sources.square().mean(-1) + eps)
    return (sources * (norm_weight.float() * proj_weight[0].float())).sum(-1) * inverse_rms


def mixed(sources, weights):
    """The raw sources, weighted. sources [n, ..., D], weights [n, ...]."""
    return (sources * weights[..., None]).sum(0)


def attn_res(prefix, bank, proj, norm):
    """prefix [..., D], bank a list of the same; `proj` and `norm` are the modules whose weights score the sources."""
    sources = torch.stack([*bank, prefix]).float()
    weights = torch.softmax(source_scores(sources, proj.weight, norm.weight, norm.eps), dim=0)
    return mixed(sources, weights).to(prefix.dtype)


def starts_block(layer, block_size):
    return layer % block_size == 0
