"""Fuses the reference's elementwise functions with torch.compile, for training; values change only in rounding.

Matrix products, the chunk loop and the dispatch of experts stay eager: a graph of the whole model, with its loops
unrolled, had not compiled after six minutes.
"""

import torch

import kda
import layers
import mla
import moe
import residuals

# Where each function is called from; `rms_norm` and `situ` have several callers.
FUSED = (
    (layers, "rms_norm"),
    (kda, "short_conv"),
    (kda, "log_decay"),
    (kda, "normalised_query"),
    (kda, "l2_normalised"),
    (kda, "chunk_factors"),
    (kda, "gated_norm"),
    (mla, "output_gate"),
    (moe, "fake_quantise"),
    (residuals, "attn_res"),
)


def fuse():
    """Process-wide; compilation happens at the first call of each function and is cached on disk by torch."""
    for module, name in FUSED:
        setattr(module, name, torch.compile(getattr(module, name)))
    layers.situ = moe.situ = torch.compile(layers.situ, dynamic=True)
