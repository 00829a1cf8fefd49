"""Reads and writes checkpoints in the released format: safetensors shards, an index, MXFP4 experts, padded A_log.

`weight_map` decides where a tensor lies; the files' order is never assumed. Each tensor of the text model must be
there with the right shape, and a text tensor nobody asked for is an error. Vision tensors are left alone.
"""

import json
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

import mxfp4

INDEX = "model.safetensors.index.json"
TEXT_PREFIX = "language_model."
MATRICES = ("w1", "w2", "w3")
UNQUANTISED_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
FLOAT32_SUFFIXES = (".A_log", ".dt_bias", "_conv1d.weight", ".o_norm.weight", ".e_score_correction_bias")


class CheckpointError(ValueError):
    """A tensor is missing, unexpected, or not what the configuration says."""


class Shards:
    """Tensors by name, from whichever shard holds them."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.weight_map = json.loads((self.folder / INDEX).read_text())["weight_map"]
        self.unread = {name for name in self.weight_map if name.startswith(TEXT_PREFIX)}
        self.files = {}

    def read(self, name):
        if name not in self.weight_map:
            raise CheckpointError(f"{self.folder}: tensor '{name}' is missing")
        file = self.weight_map[name]
        if file not in self.files:
            self.files[file] = safe_open(self.folder / file, "pt")
        self.unread.discard(name)
        return self.files[file].get_tensor(name)


def live_a_log(name, tensor, heads):
    """The release pads A_log with zeros to head_dim entries; only its first `heads` mean anything."""
    if tensor.numel() < heads or tensor[heads:].any():
        raise CheckpointError(f"tensor '{name}' has {tensor.numel()} entries; expected {heads}, then only zeros")
    return tensor[:heads]


def _plain(shards, name, parameter):
    tensor = shards.read(name)
    if tensor.dtype not in UNQUANTISED_DTYPES:
        raise CheckpointError(f"tensor '{name}' is {tensor.dtype}; expected BF16, F16 or F32")
    return live_a_log(name, tensor, parameter.numel()) if name.endswith(".A_log") else tensor


def _experts(shards, name, parameter):
    """`…experts.w1` from `…experts.{e}.w1.weight_packed` and `.weight_scale`."""
    stem, matrix = name.rsplit(".", 1)
    names = [f"{stem}.{e}.{matrix}.weight_" for e in range(parameter.shape[0])]
    return torch.stack([mxfp4.decode(shards.read(n + "packed"), shards.read(n + "scale")) for n in names])


def is_expert_stack(name):
    return name.rsplit(".", 1)[1] in MATRICES


def load(model, folder):
    """Fills every parameter of a model.Model, widened or rounded to the parameter's type."""
    shards = Shards(folder)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            tensor = (_experts if is_expert_stack(name) else _plain)(shards, name, parameter)
            if tensor.shape != parameter.shape:
                raise CheckpointError(f"tensor '{name}' is {list(tensor.shape)}; expected {list(parameter.shape)}")
            parameter.copy_(tensor)
    if shards.unread:
        raise CheckpointError(f"{folder}: tensor '{min(shards.unread)}' belongs to no layer")
    return model


def released_tensors(model):
    """(name, tensor) as the release stores them: BF16 trunk, F32 small tensors, MXFP4 experts, A_log padded."""
    for name, parameter in model.named_parameters():
        value = parameter.detach()
        if is_expert_stack(name):
            stem, matrix = name.rsplit(".", 1)
            for e, (packed, scale) in enumerate(zip(*mxfp4.encode(value))):
                yield f"{stem}.{e}.{matrix}.weight_packed", packed
                yield f"{stem}.{e}.{matrix}.weight_scale", scale
        elif name.endswith(".A_log"):
            padded = torch.zeros(max(model.config.kda_head_dim, value.numel()))
            padded[: value.numel()] = value
            yield name, padded
        elif name.endswith(FLOAT32_SUFFIXES):
            yield name, value.float()
        else:
            yield name, value.bfloat16()


def save(model, folder, shard_bytes):
    """Writes shards of about `shard_bytes` and the index; config.json is the caller's."""
    folder = Path(folder)
    shards, size, total = [{}], 0, 0
    for name, tensor in released_tensors(model):
        if size >= shard_bytes:
            shards.append({})
            size = 0
        shards[-1][name] = tensor.contiguous()
        size += tensor.nbytes
        total += tensor.nbytes
    weight_map = {}
    for i, shard in enumerate(shards):
        file = f"model-{i + 1:05d}-of-{len(shards):06d}.safetensors"
        save_file(shard, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(shard, file)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
