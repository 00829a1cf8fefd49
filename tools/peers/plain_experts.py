#!/usr/bin/env python3
"""Writes a checkpoint again with its MXFP4 experts decoded to float32: the same model, for programs that multiply
4-bit weights by rounded activations unless there is nothing to be saved.

Every value of MXFP4 is a float32, so nothing is rounded. Only for small checkpoints: experts become eight times
as large, and a shard is in memory as a whole.

Usage: plain_experts.py CHECKPOINT OUT
Needs torch and safetensors.
"""

import json
import sys
from pathlib import Path

from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reference"))
import mxfp4  # noqa: E402  (the folder above must be known first)

INDEX = "model.safetensors.index.json"
PACKED, SCALE = ".weight_packed", ".weight_scale"


def decoded(tensors):
    """The shard's tensors; pairs of packed weights and scales become one float32 weight."""
    plain = {}
    for name, tensor in tensors.items():
        if name.endswith(PACKED):
            stem = name.removesuffix(PACKED)
            plain[f"{stem}.weight"] = mxfp4.decode(tensor, tensors[stem + SCALE])
        elif not name.endswith(SCALE):
            plain[name] = tensor
    return plain


def main():
    source, out = map(Path, sys.argv[1:])
    out.mkdir(parents=True)
    weight_map, total = {}, 0
    for file in sorted(source.glob("*.safetensors")):
        tensors = decoded(load_file(file))
        save_file(tensors, out / file.name, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(tensors, file.name)
        total += sum(tensor.nbytes for tensor in tensors.values())
    config = json.loads((source / "config.json").read_text())
    del config["text_config"]["quantization_config"]
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (out / INDEX).write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}) + "\n")


if __name__ == "__main__":
    main()
