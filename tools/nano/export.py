#!/usr/bin/env python3
"""Writes a trained run as a checkpoint in the released format: shards as the release cuts them, index, config,
vocabulary.

The numbers of the model card come from evaluate.py's JSON, none are typed. The vision tower is random (sizes.py).
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

import card
from sizes import VISION, model_config, released_config
from tokenizer import MODEL_FOLDER, Tokenizer

from checkpoint import FLOAT32_SUFFIXES, INDEX, is_expert_stack, released_tensors
from model import Model, Options

VISION_STD = 0.02


def trained_model(state):
    model = Model(model_config(), Options(quantised_experts=True))
    model.load_state_dict(state["model"])
    return model


def keeps_float32(name):
    """Not rounded to bfloat16 on writing: the small float32 tensors, and experts, which go to MXFP4 at once."""
    return name.endswith(FLOAT32_SUFFIXES) or is_expert_stack(name)


def vision_shapes():
    """(shard, name, shape) of the tower and its projector; docs/model.md, "Tensor names"."""
    v = VISION
    hidden, patch, merge = v["vt_hidden_size"], v["patch_size"], v["merge_kernel_size"]
    merged = v["mm_hidden_size"] * merge[0] * merge[1]
    yield "projector", "mm_projector.proj.0.weight", (merged, merged)
    yield "projector", "mm_projector.proj.2.weight", (v["text_hidden_size"], merged)
    yield "projector", "mm_projector.post_norm.weight", (v["text_hidden_size"],)
    positions = (v["init_pos_emb_height"], v["init_pos_emb_width"], hidden)
    yield "tower", "vision_tower.patch_embed.proj.weight", (hidden, 3, patch, patch)
    yield "tower", "vision_tower.patch_embed.pos_emb.weight", positions
    for block in range(v["vt_num_hidden_layers"]):
        stem = f"vision_tower.encoder.blocks.{block}."
        yield "tower", stem + "norm0.weight", (hidden,)
        yield "tower", stem + "norm1.weight", (hidden,)
        yield "tower", stem + "mlp.fc0.weight", (v["vt_intermediate_size"], hidden)
        yield "tower", stem + "mlp.fc1.weight", (hidden, v["vt_intermediate_size"])
        yield "tower", stem + "wqkv.weight", (3 * v["qkv_hidden_size"], hidden)
        yield "tower", stem + "wo.weight", (hidden, v["qkv_hidden_size"])
    yield "tower", "vision_tower.encoder.final_layernorm.weight", (hidden,)


def vision_tensors():
    generator = torch.Generator().manual_seed(1)
    for shard, name, shape in vision_shapes():
        if len(shape) == 1:
            yield shard, name, torch.ones(shape, dtype=torch.bfloat16)
        else:
            yield shard, name, (torch.randn(shape, generator=generator) * VISION_STD).bfloat16()


def shard_of(name):
    parts = name.split(".")
    return parts[3] if parts[2] == "layers" else "head"


def write_tensors(model, folder):
    """One shard a layer, then head, projector and tower. Returns the bytes of all tensors."""
    shards, total = {}, 0
    for name, tensor in released_tensors(model):
        shards.setdefault(shard_of(name), {})[name] = tensor.contiguous()
    for shard, name, tensor in vision_tensors():
        shards.setdefault(shard, {})[name] = tensor
    layers = [str(i) for i in range(model.config.num_hidden_layers)]
    weight_map = {}
    for i, key in enumerate([*layers, "head", "projector", "tower"], 1):
        file = f"model-{i:05d}-of-{len(shards):06d}.safetensors"
        save_file(shards[key], folder / file, metadata={"format": "pt"})
        (folder / file).chmod(0o644)
        weight_map |= dict.fromkeys(shards[key], file)
        total += sum(tensor.nbytes for tensor in shards[key].values())
    write_json(folder / INDEX, {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))})
    return total


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="ascii")


def write_vocabulary(folder):
    for name in ("tiktoken.model", "tokenizer_config.json"):
        if not (folder / name).exists() or not (folder / name).samefile(MODEL_FOLDER / name):
            shutil.copyfile(MODEL_FOLDER / name, folder / name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("run", type=Path, help="folder of the run, which has state.pt")
    parser.add_argument("folder", type=Path, help="folder of the checkpoint")
    parser.add_argument(
        "--measured", type=Path, help="evaluate.py's JSON of this checkpoint: writes MODEL_CARD.md too"
    )
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    state, tokenizer = torch.load(args.run / "state.pt"), Tokenizer()
    model = trained_model(state)
    total = write_tensors(model, args.folder)
    config = released_config(tokenizer)
    write_json(args.folder / "config.json", config)
    write_json(
        args.folder / "generation_config.json",
        {k: config[k] for k in ("bos_token_id", "eos_token_id", "pad_token_id")},
    )
    write_vocabulary(args.folder)
    print(f"{args.folder}: {total} bytes of tensors after {state['tokens']} tokens of training")
    if args.measured:
        text = card.text_of(model, state, total, json.loads(args.measured.read_text()))
        (args.folder / "MODEL_CARD.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
