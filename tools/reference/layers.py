"""The pieces every block uses: linear layers without bias, RMSNorm, and the SiTU-GLU feed-forward."""

import torch
from torch import nn


def linear(inputs, outputs, dtype):
    return nn.Linear(inputs, outputs, bias=False, dtype=dtype)


def rms_norm(x, weight, eps):
    """x [..., n]: normalised in float32, rounded to x's type, then multiplied by weight [n]."""
    x32 = x.float()
    normed = x32 * torch.rsqrt(x32.square().mean(-1, keepdim=True) + eps)
    return normed.to(x.dtype) * weight


class RmsNorm(nn.Module):
    def __init__(self, width, eps, dtype):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=dtype))
        self.eps = eps

    def forward(self, x):
        return rms_norm(x, self.weight, self.eps)


def situ(gate, up, beta, linear_beta):
    """beta tanh(g/beta) sigmoid(g) * lambda tanh(u/lambda), in float32, rounded to the inputs' type."""
    g, u = gate.float(), up.float()
    y = beta * torch.tanh(g / beta) * torch.sigmoid(g) * linear_beta * torch.tanh(u / linear_beta)
    return y.to(gate.dtype)


class Mlp(nn.Module):
    """down(situ(gate(x), up(x))): layer 0's dense feed-forward and the shared experts."""

    def __init__(self, config, width, dtype):
        super().__init__()
        self.config = config
        self.gate_proj = linear(config.hidden_size, width, dtype)
        self.up_proj = linear(config.hidden_size, width, dtype)
        self.down_proj = linear(width, config.hidden_size, dtype)

    def forward(self, x):
        c = self.config
        return self.down_proj(
            situ(self.gate_proj(x), self.up_proj(x), c.activation_situ_beta, c.activation_situ_linear_beta)
        )
