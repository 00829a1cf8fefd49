"""The model card of a nano checkpoint. Every number in it is computed from the checkpoint or taken from a
measurement.
"""

TEMPLATE = """# nano: a small Kimi K3

{parameters:.1f} M parameters ({active:.1f} M work on a token, the embedding not counted), {size:.1f} MB, trained on
one CPU core on {tokens:.1f} M tokens ({learnt:.1f} M of them written by an assistant) of an invented world; see
tools/nano/. It has K3's whole architecture and released file format: {kda} KDA and {mla} MLA layers, attention
residuals over {blocks} blocks, a dense first layer, {experts} MXFP4 experts of which {top} work on a token beside
{shared} shared ones in a latent space of {latent}.

It exists to show and test an engine with a model that answers, not to be useful: it knows a few dozen facts and a few
hundred words. Its vision tower has random weights; what it says about images means nothing.

## What it can do

Measured on tasks that training cannot have seen (numbers, tool names, facts, and wordings are split by a hash), greedy,
from this checkpoint. A reply counts only if it is exactly right and all its frames are complete.

| what | right | of | |
|---|---|---|---|
{rows}

`lookup`: a text of up to a thousand ids with two to seven facts, each of another kind, between sentences about other things, and a
question about one of them. `lookup among facts alike`: up to twelve facts of a few kinds about a few people, so that who and what have
both to be met. `missing` and `missing among facts alike`: the same texts, and a question that they do not answer, which is what the model has to say.

Mean length of thinking in ids: {thinking}.

## How the experts are used

Tokens per expert during the measurement, in parts of an equal share, smallest expert first:

| layer | {heads} |
|---|{dashes}
{histogram}

## What it was trained on

Conversations made by tools/nano/world.py from tools/nano_text/words.txt and sentences written for it. No other data.
Experts were rounded to MXFP4 in every step of the training, so the released weights are those that were trained.
"""


def counted(model):
    """(all parameters, those a token uses), in millions."""
    c = model.config
    total = used = 0
    for name, parameter in model.named_parameters():
        total += parameter.numel()
        if "embed_tokens" in name:
            continue
        routed = ".experts.w" in name
        used += parameter.numel() * (c.num_experts_per_token / c.num_experts if routed else 1)
    return total / 1e6, used / 1e6


def rows_of(measured):
    lines = []
    for name, n in measured["rows"].items():
        lines.append(f"| {name} | {n['right']} | {n['asked']} | {n['right'] / n['asked']:.1%} |")
    return "\n".join(lines)


def histogram_of(measured, first_moe_layer):
    lines = []
    for i, counts in enumerate(measured["expert_counts"]):
        shares = sorted(count * len(counts) / sum(counts) for count in counts)
        lines.append(f"| {first_moe_layer + i} | " + " | ".join(f"{share:.2f}" for share in shares) + " |")
    return "\n".join(lines)


def text_of(model, state, size, measured):
    c = model.config
    parameters, active = counted(model)
    blocks = -(-c.num_hidden_layers // c.attn_res_block_size)
    return TEMPLATE.format(
        parameters=parameters,
        active=active,
        size=size / 1e6,
        tokens=state["tokens"] / 1e6,
        learnt=state["learnt"] / 1e6,
        kda=len(c.kda_layers),
        mla=len(c.full_attn_layers),
        blocks=blocks,
        experts=c.num_experts,
        top=c.num_experts_per_token,
        shared=c.num_shared_experts,
        latent=c.routed_expert_hidden_size,
        rows=rows_of(measured),
        thinking=", ".join(f"{level} {n}" for level, n in measured["mean_thinking_ids"].items()),
        heads=" | ".join(str(i + 1) for i in range(c.num_experts)),
        dashes="---|" * c.num_experts,
        histogram=histogram_of(measured, c.first_k_dense_replace),
    )
