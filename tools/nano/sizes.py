"""The sizes of the nano model, as the config.json that its checkpoint has.

Small enough for a checkpoint of some 7 MB, trained on one CPU core; large enough for every part of K3: three KDA
layers and two MLA layers in the released pattern (MLA last and before last), three residual blocks, a dense first
layer, experts in a latent space. Input widths of expert matrices are multiples of 32, the group of MXFP4. A hidden
size of 128 has 3.1 M parameters instead of 5.0 M and is only a quarter faster; nine layers of 128 are as large and
a third slower.
"""

import copy
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reference"))
from config import config_from_dict  # noqa: E402

from tokenizer import Tokenizer  # noqa: E402

LAYERS = 5
MLA_LAYERS = (4, 5)  # counted from 1, as config.json does
HIDDEN = 192
HEADS, HEAD_DIM = 6, 32

TEXT = {
    "activation_situ_beta": 4.0,
    "activation_situ_linear_beta": 25.0,
    "architectures": ["KimiLinearForCausalLM"],
    "attn_res_block_size": 2,
    "dtype": "bfloat16",
    "first_k_dense_replace": 1,
    "hidden_act": "situ",
    "hidden_size": HIDDEN,
    "initializer_range": 0.02,
    "intermediate_size": 384,
    "kv_lora_rank": 128,
    "latent_moe_use_norm": True,
    "linear_attn_config": {
        "full_attn_layers": list(MLA_LAYERS),
        "gate_lower_bound": -5.0,
        "head_dim": HEAD_DIM,
        "kda_layers": [layer for layer in range(1, LAYERS + 1) if layer not in MLA_LAYERS],
        "num_heads": HEADS,
        "short_conv_kernel_size": 4,
        "use_full_rank_gate": True,
    },
    "max_position_embeddings": 4096,
    "mla_use_nope": True,
    "mla_use_output_gate": True,
    "model_type": "kimi_linear",
    "moe_intermediate_size": 64,
    "moe_layer_freq": 1,
    "moe_renormalize": True,
    "moe_router_activation_func": "sigmoid",
    "num_attention_heads": HEADS,
    "num_expert_group": 1,
    "num_experts": 24,
    "num_experts_per_token": 4,
    "num_hidden_layers": LAYERS,
    "num_key_value_heads": HEADS,
    "num_nextn_predict_layers": 0,
    "num_shared_experts": 2,
    "q_lora_rank": 96,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "quantization_config": {
        "config_groups": {
            "group_0": {
                "format": "mxfp4-pack-quantized",
                "input_activations": None,
                "output_activations": None,
                "targets": ["Linear"],
                "weights": {
                    "actorder": None,
                    "block_structure": None,
                    "dynamic": False,
                    "group_size": 32,
                    "num_bits": 4,
                    "observer": "minmax",
                    "observer_kwargs": {},
                    "scale_dtype": "torch.uint8",
                    "strategy": "group",
                    "symmetric": True,
                    "type": "float",
                    "zp_dtype": None,
                },
            }
        },
        "format": "mxfp4-pack-quantized",
        "global_compression_ratio": None,
        "ignore": [
            "re:.*self_attn.*",
            "re:.*shared_experts.*",
            "re:.*mlp\\.(gate|up|gate_up|down)_proj.*",
            "re:.*lm_head.*",
            "re:.*vision_tower.*",
            "re:.*mm_projector.*",
        ],
        "kv_cache_scheme": None,
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
    },
    "rms_norm_eps": 1e-05,
    "routed_expert_hidden_size": 96,
    "routed_scaling_factor": 1.0,
    "tie_word_embeddings": False,
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "use_cache": True,
    "use_grouped_topk": True,
    "v_head_dim": 32,
}

# Random weights: the tower is there so that a program meets every tensor; it has not been trained.
VISION = {
    "activation_func": "gelu_pytorch_tanh",
    "attn_bias": False,
    "init_pos_emb_height": 8,
    "init_pos_emb_time": 4,
    "init_pos_emb_width": 8,
    "linear_bias": False,
    "merge_kernel_size": [2, 2],
    "merge_type": "sd2_tpool",
    "mlp_type": "mlp2",
    "mm_hidden_size": 32,
    "mm_projector_type": "patchmergerv2",
    "norm_type": "rmsnorm",
    "patch_embed_proj_bias": False,
    "patch_size": 14,
    "pos_emb_interpolation_mode": "bilinear",
    "pos_emb_type": "divided_fixed",
    "projector_hidden_act": "gelu",
    "projector_ln_eps": 1e-05,
    "qkv_hidden_size": 48,
    "text_hidden_size": HIDDEN,
    "vt_hidden_size": 32,
    "vt_intermediate_size": 64,
    "vt_num_attention_heads": 4,
    "vt_num_hidden_layers": 2,
}


def released_config(tokenizer):
    """The whole config.json."""
    special = tokenizer.special
    ends = {
        "bos_token_id": special["[BOS]"],
        "eos_token_id": special["<|end_of_msg|>"],
        "pad_token_id": special["[PAD]"],
    }
    text = copy.deepcopy(TEXT) | ends | {"vocab_size": tokenizer.vocab_size}
    return {
        "architectures": ["KimiK3ForConditionalGeneration"],
        **ends,
        "dtype": "bfloat16",
        "ignore_index": -100,
        "image_placeholder": "<|kimi_image_placeholder|>",
        "media_placeholder_token_id": special["<|media_pad|>"],
        "model_type": "kimi_k3",
        "text_config": text,
        "tie_word_embeddings": False,
        "vision_config": VISION,
    }


def model_config():
    """As the reference wants it."""
    return config_from_dict(json.loads(json.dumps(released_config(Tokenizer()))))
