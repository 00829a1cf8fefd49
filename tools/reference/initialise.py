"""Random weights to start training from: normal matrices, and KDA decays spread from slow to fast."""

import math

import torch

from kda import Kda

STD = 0.02
CONVOLUTION_STD = 0.1  # around taps that pass one token
# Decay of a channel per token, -log(alpha), drawn log-uniformly: memories of a thousand tokens down to two.
SLOWEST, FASTEST = 1e-3, 0.5


def _initialise_decay(kda):
    """A_log spreads the heads; dt_bias places each channel's decay at zero input."""
    with torch.no_grad():
        kda.A_log.uniform_(1, 2).log_()
        rate = torch.empty(kda.heads, kda.head_dim).uniform_(math.log(SLOWEST), math.log(FASTEST)).exp()
        share = rate / -kda.config.gate_lower_bound
        kda.dt_bias.copy_((torch.logit(share) / kda.A_log.exp()[:, None]).flatten())


def _initialise_recall(kda):
    """Keys and queries begin as the same projection of a token, met unmixed by the convolutions: in even heads a key
    stands for the token before its value, in odd heads for the value's own. So the state finds what followed an equal
    token from the start, instead of after the thousands of steps in which this usually forms.
    """
    with torch.no_grad():
        kda.k_proj.weight.copy_(kda.q_proj.weight)
        taps = torch.zeros(kda.heads, kda.head_dim, kda.q_conv1d.weight.shape[-1])
        taps[..., -1] = 1
        kda.q_conv1d.weight.add_(taps.view_as(kda.q_conv1d.weight))
        kda.v_conv1d.weight.add_(taps.view_as(kda.v_conv1d.weight))
        taps[::2] = taps[::2].roll(-1, dims=-1)
        kda.k_conv1d.weight.add_(taps.view_as(kda.k_conv1d.weight))


def initialise(model):
    """In place; uses torch's global generator. Norm weights stay one, selection biases zero."""
    outputs_std = STD / math.sqrt(2 * model.config.num_hidden_layers)
    for name, parameter in model.named_parameters():
        if name.endswith("_conv1d.weight"):
            torch.nn.init.normal_(parameter, std=CONVOLUTION_STD)
        elif parameter.dim() >= 2:
            adds_to_residual = name.endswith(("o_proj.weight", "down_proj.weight", "up_proj.weight", "w2"))
            torch.nn.init.normal_(parameter, std=outputs_std if adds_to_residual else STD)
    for module in model.modules():
        if isinstance(module, Kda):
            _initialise_decay(module)
            _initialise_recall(module)
    return model
