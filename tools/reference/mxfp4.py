"""MXFP4, the format of the routed experts: E2M1 nibbles in groups of 32 along the input, one E8M0 scale per group.

`decode` is exact. `encode` exists for training and for writing a checkpoint; it follows compressed-tensors' scale
rule (docs/formats.md): the group's largest magnitude, rounded to a power of two, divided by four.
"""

import torch

GROUP = 32
E2M1 = torch.tensor([0.0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
LARGEST = 6.0
SCALE_BIAS = 127


def nibbles(packed):
    """uint8 [..., n/2] -> int64 codes [..., n]; the low nibble is the even element."""
    return torch.stack([packed & 0xF, packed >> 4], dim=-1).flatten(-2).long()


def decode(packed, scale):
    """weight_packed uint8 [out, in/2], weight_scale uint8 [out, in/32] -> float32 [out, in]."""
    if int(scale.max()) > 252:
        raise ValueError("an MXFP4 scale byte above 252 is NaN or overflows float32")
    values = E2M1[nibbles(packed)].unflatten(-1, (-1, GROUP))
    return torch.ldexp(values, scale.int()[..., None] - SCALE_BIAS).flatten(-2)


def _group_exponents(groups):
    """The power of two k of each group's scale 2^k; mantissas of 1.75 and more go up, so that 4 or 6 is the largest."""
    mantissa, exponent = torch.frexp(groups.abs().amax(-1))  # mantissa in [0.5, 1)
    return exponent - 3 + (mantissa >= 0.875).int()


def _round_to_e2m1(x):
    """Nearest E2M1 value, ties to the even code, saturating. E2M1's step is 0.5 below 2, 1 below 4, then 2."""
    magnitude = x.abs().clamp(max=LARGEST)
    step = 0.5 * (1 + (magnitude >= 2).float() + 2 * (magnitude >= 4).float())
    return torch.copysign(torch.round(magnitude / step) * step, x)


def _quantised_groups(weight):
    groups = weight.float().unflatten(-1, (-1, GROUP))
    exponents = _group_exponents(groups).clamp(-SCALE_BIAS, 252 - SCALE_BIAS)
    return _round_to_e2m1(torch.ldexp(groups, -exponents[..., None])), exponents


def encode(weight):
    """float [..., in] -> (weight_packed, weight_scale), both uint8."""
    rounded, exponents = _quantised_groups(weight)
    code = torch.bucketize(rounded.abs(), E2M1[:8]) + 8 * torch.signbit(rounded)
    pairs = code.flatten(-2).to(torch.uint8).unflatten(-1, (-1, 2))
    return pairs[..., 0] | pairs[..., 1] << 4, (exponents + SCALE_BIAS).to(torch.uint8)


def fake_quantise(weight):
    """The values `weight` would have after encode and decode, with the gradient passed straight through."""
    with torch.no_grad():
        rounded, exponents = _quantised_groups(weight)
        change = torch.ldexp(rounded, exponents[..., None]).flatten(-2) - weight
    return weight + change
