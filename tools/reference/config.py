"""The sizes and constants of a K3 text model, read from the released `config.json`.

Every field must be present: a missing key is an error, never a default, because small checkpoints differ from the
release in all sizes. A value that asks for a model we do not implement is refused here, so no other file has to
wonder. Vision is not described.
"""

import json
from dataclasses import dataclass
from pathlib import Path


class ConfigError(ValueError):
    """A key of config.json is missing or asks for something this model does not have."""


# What the forward pass takes for granted; any other value is another model.
REQUIRED = {
    "hidden_act": "situ",
    "latent_moe_use_norm": True,
    "mla_use_nope": True,
    "mla_use_output_gate": True,
    "moe_layer_freq": 1,
    "moe_renormalize": True,
    "moe_router_activation_func": "sigmoid",
    "num_expert_group": 1,
    "num_nextn_predict_layers": 0,
    "tie_word_embeddings": False,
    "topk_group": 1,
}


@dataclass(frozen=True)
class Config:
    """Field names are those of `text_config`, except where a comment says otherwise."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    rms_norm_eps: float
    attn_res_block_size: int

    # Kimi Delta Attention, from `linear_attn_config`; layer indices are 1-based in the file and 0-based here.
    kda_layers: tuple[int, ...]
    kda_num_heads: int
    kda_head_dim: int
    kda_conv_width: int  # short_conv_kernel_size
    gate_lower_bound: float

    # Multi-head latent attention
    full_attn_layers: tuple[int, ...]
    num_attention_heads: int
    q_lora_rank: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int

    # Feed-forward
    first_k_dense_replace: int
    intermediate_size: int
    num_experts: int
    num_experts_per_token: int
    num_shared_experts: int
    moe_intermediate_size: int
    routed_expert_hidden_size: int
    routed_scaling_factor: float
    activation_situ_beta: float
    activation_situ_linear_beta: float

    @property
    def shared_expert_width(self):
        """The shared experts are one MLP."""
        return self.num_shared_experts * self.moe_intermediate_size

    def is_kda(self, layer):
        return layer in self.kda_layers

    def is_dense(self, layer):
        return layer < self.first_k_dense_replace


def _get(table, key, where):
    if key not in table:
        raise ConfigError(f"{where} lacks '{key}'")
    return table[key]


def _zero_based(layers, num_layers, where):
    if any(not 1 <= layer <= num_layers for layer in layers):
        raise ConfigError(f"{where} names a layer outside 1..{num_layers} (the list is 1-based)")
    return tuple(sorted(layer - 1 for layer in layers))


def _kda_fields(text, num_layers):
    where = "text_config.linear_attn_config"
    linear = _get(text, "linear_attn_config", "text_config")
    if _get(linear, "use_full_rank_gate", where) is not True:
        raise ConfigError(f"{where}.use_full_rank_gate must be true")
    kda = _zero_based(_get(linear, "kda_layers", where), num_layers, where + ".kda_layers")
    full = _zero_based(_get(linear, "full_attn_layers", where), num_layers, where + ".full_attn_layers")
    if sorted(kda + full) != list(range(num_layers)):
        raise ConfigError(f"{where}: kda_layers and full_attn_layers must name each layer once")
    return {
        "kda_layers": kda,
        "full_attn_layers": full,
        "kda_num_heads": _get(linear, "num_heads", where),
        "kda_head_dim": _get(linear, "head_dim", where),
        "kda_conv_width": _get(linear, "short_conv_kernel_size", where),
        "gate_lower_bound": _get(linear, "gate_lower_bound", where),
    }


def config_from_dict(root):
    """`root`: the parsed config.json."""
    text = _get(root, "text_config", "config.json")
    for key, value in REQUIRED.items():
        if _get(text, key, "text_config") != value:
            raise ConfigError(f"text_config.{key} is {text[key]!r}; only {value!r} is implemented")
    kda = _kda_fields(text, _get(text, "num_hidden_layers", "text_config"))
    plain = [name for name in Config.__dataclass_fields__ if name not in kda]
    return Config(**kda, **{name: _get(text, name, "text_config") for name in plain})


def read_config(folder):
    return config_from_dict(json.loads((Path(folder) / "config.json").read_text()))


def read_image_token(folder):
    """The id whose embedding is replaced by image features; it stands outside `text_config`."""
    return _get(json.loads((Path(folder) / "config.json").read_text()), "media_placeholder_token_id", "config.json")
