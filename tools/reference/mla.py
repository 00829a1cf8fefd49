"""Gated multi-head latent attention without positions: the "rope" dimensions are plain key dimensions.

The cache holds, per token, the normalised latent and the one shared k_r. Here keys and values are expanded from it at
every call, which reads like the definition; an engine scores against the latent instead (the absorbed form).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from layers import RmsNorm, linear

# The released class default for the two LoRA norms; rms_norm_eps is not used there.
LORA_NORM_EPS = 1e-6


@dataclass
class MlaCache:
    latent: torch.Tensor  # [B, tokens, kv_lora_rank], normalised
    k_r: torch.Tensor  # [B, tokens, qk_rope_head_dim]


def softmax_scale(config):
    return (config.qk_nope_head_dim + config.qk_rope_head_dim) ** -0.5


def attend(q, k, v, scale):
    """Causal attention in float32; the last query meets the last key.

    q [B, H, T, d], k [B, H, S, d], v [B, H, S, e] -> [B, H, T, e].
    """
    tokens, seen = q.shape[2], k.shape[2]
    scores = q.float() @ k.float().mT * scale
    causal = torch.ones(tokens, seen, dtype=torch.bool, device=q.device).tril(seen - tokens)
    weights = torch.softmax(scores.masked_fill(~causal, -torch.inf), dim=-1)
    return (weights @ v.float()).to(q.dtype)


def attend_fused(q, k, v, scale):
    """The same by PyTorch's fused kernel, which wants equal head widths; for training, without a cache."""
    width = max(k.shape[-1], v.shape[-1])
    q, k, padded = (F.pad(x, (0, width - x.shape[-1])) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, padded, is_causal=True, scale=scale)[..., : v.shape[-1]]


def output_gate(a, z):
    """In the activation type: unlike KDA's, the released gate rounds its sigmoid."""
    return a * torch.sigmoid(z)


class Mla(nn.Module):
    def __init__(self, config, dtype, fused=False):
        super().__init__()
        self.config, self.fused = config, fused
        hidden, heads = config.hidden_size, config.num_attention_heads
        nope, rope, value = config.qk_nope_head_dim, config.qk_rope_head_dim, config.v_head_dim
        self.q_a_proj = linear(hidden, config.q_lora_rank, dtype)
        self.q_a_layernorm = RmsNorm(config.q_lora_rank, LORA_NORM_EPS, dtype)
        self.q_b_proj = linear(config.q_lora_rank, heads * (nope + rope), dtype)
        self.kv_a_proj_with_mqa = linear(hidden, config.kv_lora_rank + rope, dtype)
        self.kv_a_layernorm = RmsNorm(config.kv_lora_rank, LORA_NORM_EPS, dtype)
        self.kv_b_proj = linear(config.kv_lora_rank, heads * (nope + value), dtype)
        self.g_proj = linear(hidden, heads * value, dtype)
        self.o_proj = linear(heads * value, hidden, dtype)

    def queries(self, x):
        """[B, H, T, nope + rope]"""
        q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
        return q.unflatten(-1, (self.config.num_attention_heads, -1)).transpose(1, 2)

    def extend(self, x, cache):
        """The cache with x's tokens appended."""
        c_kv, k_r = self.kv_a_proj_with_mqa(x).split([self.config.kv_lora_rank, self.config.qk_rope_head_dim], dim=-1)
        latent = self.kv_a_layernorm(c_kv)
        if cache is None:
            return MlaCache(latent, k_r)
        return MlaCache(torch.cat([cache.latent, latent], dim=1), torch.cat([cache.k_r, k_r], dim=1))

    def keys_and_values(self, cache):
        """[B, H, S, nope + rope], [B, H, S, value]; k_r is shared by all heads."""
        c = self.config
        kv = self.kv_b_proj(cache.latent).unflatten(-1, (c.num_attention_heads, -1)).transpose(1, 2)
        k_nope, v = kv.split([c.qk_nope_head_dim, c.v_head_dim], dim=-1)
        k_r = cache.k_r[:, None].expand(-1, c.num_attention_heads, -1, -1)
        return torch.cat([k_nope, k_r], dim=-1), v

    def forward(self, x, cache=None):
        """x [B, T, hidden], normed. Returns (y [B, T, hidden], cache)."""
        fused = self.fused and cache is None
        cache = self.extend(x, cache)
        k, v = self.keys_and_values(cache)
        a = (attend_fused if fused else attend)(self.queries(x), k, v, softmax_scale(self.config))
        a = a.transpose(1, 2).flatten(-2)
        return self.o_proj(output_gate(a, self.g_proj(x))), cache
