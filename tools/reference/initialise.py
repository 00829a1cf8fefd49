"""Random weights to start training from: normal matrices, and KDA decays spread from slow to fast."""

import math

import torch

from kda import Kda

STD = 0.02
CONVOLUTION_STD = 0.1  # around taps that pass one token
# Decay of a channel per token, -log(alpha), drawn log-uniformly: memories of five thousand tokens down to ten.
SLOWEST, FASTEST = 2e-4, 0.1


def _initialise_decay(kda):
    """A_log spreads the heads; dt_bias places each channel's decay at zero input."""
    with torch.no_grad():
        kda.A_log.uniform_(1, 2).log_()
        rate = torch.empty(kda.heads, kda.head_dim).uniform_(math.log(SLOWEST), math.log(FASTEST)).exp()
        share = rate / -kda.config.gate_lower_bound
        kda.dt_bias.copy_((torch.logit(share) / kda.A_log.exp()[:, None]).flatten())


def _initialise_recall(kda):
    """Keys and queries begin as the same projection of tokens, met unmixed by the convolutions: in two heads of three a
    key stands for the three tokens before its value (half of the channels for the first of them, a quarter for each of the
    others), in the third for the value's own. Outputs return a value to where it came from. So from the start the state
    finds what followed three equal tokens, and says it, for any words, instead of after the thousands of steps in
    which this usually forms. Three, because a fact is found by who and what together.
    """
    with torch.no_grad():
        torch.nn.init.orthogonal_(kda.v_proj.weight, gain=STD * math.sqrt(kda.config.hidden_size))
        kda.o_proj.weight.copy_(kda.v_proj.weight.T)
        kda.k_proj.weight.copy_(kda.q_proj.weight)
        width, quarter = kda.q_conv1d.weight.shape[-1], kda.head_dim // 4
        last = torch.zeros(kda.heads, kda.head_dim, width)
        last[..., -1] = 1
        kda.v_conv1d.weight.add_(last.view_as(kda.v_conv1d.weight))
        before = torch.arange(kda.heads) % 3 != 2
        taps = last.clone()
        taps[before, quarter : 2 * quarter] = taps[before, quarter : 2 * quarter].roll(-1, dims=-1)
        taps[before, 2 * quarter :] = taps[before, 2 * quarter :].roll(-2, dims=-1)
        kda.q_conv1d.weight.add_(taps.view_as(kda.q_conv1d.weight))
        taps[before] = taps[before].roll(-1, dims=-1)
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
