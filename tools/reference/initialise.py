"""Random weights to start training from: normal matrices, and KDA decays spread from slow to fast."""

import math

import torch

from kda import Kda

STD = 0.02
# Decay of a channel per token, -log(alpha), drawn log-uniformly: memories of a thousand tokens down to two.
SLOWEST, FASTEST = 1e-3, 0.5


def _initialise_decay(kda):
    """A_log spreads the heads; dt_bias places each channel's decay at zero input."""
    with torch.no_grad():
        kda.A_log.uniform_(1, 2).log_()
        rate = torch.empty(kda.heads, kda.head_dim).uniform_(math.log(SLOWEST), math.log(FASTEST)).exp()
        share = rate / -kda.config.gate_lower_bound
        kda.dt_bias.copy_((torch.logit(share) / kda.A_log.exp()[:, None]).flatten())


def initialise(model):
    """In place; uses torch's global generator. Norm weights stay one, selection biases zero."""
    outputs_std = STD / math.sqrt(2 * model.config.num_hidden_layers)
    for name, parameter in model.named_parameters():
        if name.endswith("_conv1d.weight"):
            torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
        elif parameter.dim() >= 2:
            adds_to_residual = name.endswith(("o_proj.weight", "down_proj.weight", "up_proj.weight", "w2"))
            torch.nn.init.normal_(parameter, std=outputs_std if adds_to_residual else STD)
    for module in model.modules():
        if isinstance(module, Kda):
            _initialise_decay(module)
    return model
