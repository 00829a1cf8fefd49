"""Latent mixture of experts: a float32 router, routed experts in a narrow latent space, shared experts beside them.

Pairs (token, expert) are sorted by expert, so each expert is three matrix products over its own tokens.
"""

import torch
from torch import nn

from layers import Mlp, RmsNorm, linear, situ
from mxfp4 import fake_quantise

WEIGHT_SUM_EPS = 1e-20


def scores(x, gate_weight):
    """x [N, hidden] -> sigmoid scores [N, experts], float32."""
    return torch.sigmoid(x.float() @ gate_weight.float().T)


def select(s, bias, top_k):
    """Expert ids [N, top_k] of the largest biased scores; ties go to the lower id."""
    return torch.sort(s + bias, dim=-1, descending=True, stable=True).indices[:, :top_k]


def routing_weights(s, ids, bias, scaling_factor):
    """The unbiased scores of the chosen experts, renormalised. `bias` chose them and has no part here."""
    chosen = s.gather(-1, ids)
    return chosen / (chosen.sum(-1, keepdim=True) + WEIGHT_SUM_EPS) * scaling_factor


class Router(nn.Module):
    """Holds `gate.weight` and `gate.e_score_correction_bias`; the bias is set by load balancing, not by gradients."""

    def __init__(self, config, dtype):
        super().__init__()
        self.config = config
        self.weight = nn.Parameter(torch.zeros(config.num_experts, config.hidden_size, dtype=dtype))
        self.e_score_correction_bias = nn.Parameter(torch.zeros(config.num_experts), requires_grad=False)

    def forward(self, x):
        """x [N, hidden] -> (ids [N, top_k], weights [N, top_k] float32)."""
        s = scores(x, self.weight)
        ids = select(s.detach(), self.e_score_correction_bias, self.config.num_experts_per_token)
        return ids, routing_weights(s, ids, self.e_score_correction_bias, self.config.routed_scaling_factor)


class Experts(nn.Module):
    """All routed experts of a layer, stacked: w1 (gate), w3 (up) [E, width, latent]; w2 (down) [E, latent, width].

    The release stores them one by one and packed; checkpoint.py translates.
    """

    def __init__(self, config, dtype, quantised=False):
        super().__init__()
        self.config, self.quantised = config, quantised
        experts, width, latent = config.num_experts, config.moe_intermediate_size, config.routed_expert_hidden_size
        self.w1 = nn.Parameter(torch.zeros(experts, width, latent, dtype=dtype))
        self.w2 = nn.Parameter(torch.zeros(experts, latent, width, dtype=dtype))
        self.w3 = nn.Parameter(torch.zeros(experts, width, latent, dtype=dtype))

    def matrices(self):
        weights = (self.w1, self.w2, self.w3)
        return tuple(fake_quantise(w) for w in weights) if self.quantised else weights

    def forward(self, z, ids, weights):
        """z [N, latent], ids and weights [N, top_k] -> the weighted sum [N, latent], rounded once."""
        c = self.config
        order = torch.argsort(ids.flatten(), stable=True)  # pairs, by expert
        tokens = order // ids.shape[1]
        counts = torch.bincount(ids.flatten(), minlength=c.num_experts).tolist()
        outputs = []
        for part, w1, w2, w3 in zip(z.index_select(0, tokens).split(counts), *self.matrices()):
            hidden = situ(part @ w1.T, part @ w3.T, c.activation_situ_beta, c.activation_situ_linear_beta)
            outputs.append(hidden @ w2.T)
        weighted = torch.cat(outputs).float() * weights.flatten().index_select(0, order)[:, None]
        return z.new_zeros(z.shape, dtype=torch.float32).index_add(0, tokens, weighted).to(z.dtype)


class LatentMoe(nn.Module):
    def __init__(self, config, dtype, quantised=False):
        super().__init__()
        hidden, latent = config.hidden_size, config.routed_expert_hidden_size
        self.gate = Router(config, dtype)
        self.routed_expert_down_proj = linear(hidden, latent, dtype)
        self.experts = Experts(config, dtype, quantised)
        self.routed_expert_norm = RmsNorm(latent, config.rms_norm_eps, dtype)
        self.routed_expert_up_proj = linear(latent, hidden, dtype)
        self.shared_experts = Mlp(config, config.shared_expert_width, dtype)

    def routed(self, x):
        """x [N, hidden] -> [N, hidden]"""
        ids, weights = self.gate(x)
        y = self.experts(self.routed_expert_down_proj(x), ids, weights)
        return self.routed_expert_up_proj(self.routed_expert_norm(y))

    def forward(self, x):
        return self.routed(x.flatten(0, -2)).view(x.shape) + self.shared_experts(x)
