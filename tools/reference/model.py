"""The text model: embedding, layers joined by attention residuals, head. Parameters are named as the released tensors.

The one exception are the routed experts, which are stacked (moe.Experts); checkpoint.py translates their names.
"""

from dataclasses import dataclass

import torch
from torch import nn

import residuals
from kda import Kda
from layers import Mlp, RmsNorm, linear
from mla import Mla
from moe import LatentMoe


@dataclass(frozen=True)
class Options:
    """How the same function is computed. The defaults are the definition; the others are for training."""

    dtype: torch.dtype = torch.float32  # of the trunk; tensors the release keeps in float32 stay so
    kda_chunk: int | None = None  # tokens per chunk; None is the token-by-token recurrence
    fused_attention: bool = False
    quantised_experts: bool = False  # round experts to MXFP4 in the forward pass, gradient straight through


class Layer(nn.Module):
    def __init__(self, config, index, options):
        super().__init__()
        hidden, eps, dtype = config.hidden_size, config.rms_norm_eps, options.dtype
        self.input_layernorm = RmsNorm(hidden, eps, dtype)
        self.post_attention_layernorm = RmsNorm(hidden, eps, dtype)
        self.self_attention_res_proj = linear(hidden, 1, dtype)
        self.self_attention_res_norm = RmsNorm(hidden, eps, dtype)
        self.mlp_res_proj = linear(hidden, 1, dtype)
        self.mlp_res_norm = RmsNorm(hidden, eps, dtype)
        if config.is_kda(index):
            self.self_attn = Kda(config, dtype, options.kda_chunk)
        else:
            self.self_attn = Mla(config, dtype, options.fused_attention)
        if config.is_dense(index):
            self.mlp = Mlp(config, config.intermediate_size, dtype)
        else:
            self.block_sparse_moe = LatentMoe(config, dtype, options.quantised_experts)

    @property
    def ffn(self):
        return self.mlp if hasattr(self, "mlp") else self.block_sparse_moe


class Trunk(nn.Module):
    """`language_model.model`: token ids (or embeddings) to the input of the head."""

    def __init__(self, config, options):
        super().__init__()
        self.config = config
        hidden, eps, dtype = config.hidden_size, config.rms_norm_eps, options.dtype
        self.embed_tokens = nn.Embedding(config.vocab_size, hidden, dtype=dtype)
        self.layers = nn.ModuleList(Layer(config, i, options) for i in range(config.num_hidden_layers))
        self.output_attn_res_proj = linear(hidden, 1, dtype)
        self.output_attn_res_norm = RmsNorm(hidden, eps, dtype)
        self.norm = RmsNorm(hidden, eps, dtype)

    def forward(self, x, states):
        """x [B, T, hidden]; states: one per layer, None at the start. Returns (normed [B, T, hidden], states)."""
        p, bank, after = x, [], []
        for i, (layer, state) in enumerate(zip(self.layers, states)):
            p, bank, state = self.layer_step(i, layer, p, bank, state)
            after.append(state)
        return self.norm(self.final_mix(p, bank)), after

    def layer_step(self, i, layer, p, bank, state):
        """`p` is the running prefix sum; the blocks read a mix, but only their outputs are added to it."""
        h = p
        if bank:
            h = residuals.attn_res(p, bank, layer.self_attention_res_proj, layer.self_attention_res_norm)
        starts = residuals.starts_block(i, self.config.attn_res_block_size)
        if starts:
            bank = [*bank, p]
        a, state = layer.self_attn(layer.input_layernorm(h), state)
        p = self.add_attention(p, a, starts)
        h = residuals.attn_res(p, bank, layer.mlp_res_proj, layer.mlp_res_norm)
        return p + layer.ffn(layer.post_attention_layernorm(h)), bank, state

    def add_attention(self, p, a, starts):
        return a if starts else p + a

    def final_mix(self, p, bank):
        return residuals.attn_res(p, bank, self.output_attn_res_proj, self.output_attn_res_norm)


class LanguageModel(nn.Module):
    def __init__(self, config, options):
        super().__init__()
        self.model = Trunk(config, options)
        self.lm_head = linear(config.hidden_size, config.vocab_size, options.dtype)


class Model(nn.Module):
    def __init__(self, config, options=Options()):
        super().__init__()
        self.config = config
        self.language_model = LanguageModel(config, options)

    def embed(self, ids):
        return self.language_model.model.embed_tokens(ids)

    def hidden(self, x, states=None):
        """Embeddings [B, T, hidden] -> (input of the head, states)."""
        return self.language_model.model(x, states or [None] * self.config.num_hidden_layers)

    def forward(self, ids, states=None):
        """ids [B, T], following the tokens `states` has seen -> (logits [B, T, vocab], states)."""
        normed, states = self.hidden(self.embed(ids), states)
        return self.language_model.lm_head(normed), states
