#!/usr/bin/env python3
"""Measures one training step (forward, backward, no optimiser) of a small K3, and where its time goes."""

import argparse
import sys
import time

import torch
import torch.nn.functional as F

import fast
from config import Config
from initialise import initialise
from model import Model, Options


def small_config(hidden, layers, vocabulary):
    """Sizes in the release's proportions: KDA three times, then MLA; MLA last; layer 0 dense."""
    mla = tuple(i for i in range(layers) if i % 4 == 3 or i == layers - 1)
    return Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=layers,
        rms_norm_eps=1e-5,
        attn_res_block_size=3,
        kda_layers=tuple(i for i in range(layers) if i not in mla),
        kda_num_heads=hidden // 32,
        kda_head_dim=32,
        kda_conv_width=4,
        gate_lower_bound=-5.0,
        full_attn_layers=mla,
        num_attention_heads=hidden // 32,
        q_lora_rank=hidden // 2,
        kv_lora_rank=hidden // 4,
        qk_nope_head_dim=32,
        qk_rope_head_dim=16,
        v_head_dim=32,
        first_k_dense_replace=1,
        intermediate_size=2 * hidden,
        num_experts=24,
        num_experts_per_token=4,
        num_shared_experts=2,
        moe_intermediate_size=hidden // 3 // 32 * 32,
        routed_expert_hidden_size=hidden // 2,
        routed_scaling_factor=1.0,
        activation_situ_beta=4.0,
        activation_situ_linear_beta=25.0,
    )


def loss_of(model, ids, autocast):
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        logits, _ = model(ids[:, :-1])
    return F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocabulary", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--chunk", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--autocast", action="store_true", help="matrix products in bfloat16")
    parser.add_argument("--fuse", action="store_true", help="torch.compile the elementwise functions")
    parser.add_argument("--profile", action="store_true", help="print the operators that take the time")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    config = small_config(args.hidden, args.layers, args.vocabulary)
    model = initialise(Model(config, Options(kda_chunk=args.chunk, fused_attention=True, quantised_experts=True)))
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")
    ids = torch.randint(args.vocabulary, (args.batch, args.context + 1))
    if args.fuse:
        fast.fuse()
    for i in range(args.steps):
        start, cpu_start = time.perf_counter(), time.process_time()
        loss = loss_of(model, ids, args.autocast)
        middle = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
        rate = args.batch * args.context / (end - start)
        cpu = time.process_time() - cpu_start
        times = f"forward {middle - start:.2f} s, backward {end - middle:.2f} s, cpu {cpu:.2f} s"
        print(f"loss {loss.item():.3f}: {times}, {rate:.0f} tokens/s")
    if args.profile:
        with torch.profiler.profile() as profile:
            loss_of(model, ids, args.autocast).backward()
        print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=25, max_name_column_width=40))
    return 0


if __name__ == "__main__":
    sys.exit(main())
