"""Muon for matrices, AdamW for everything else: momentum whose singular values are all made about one.

Stacked matrices (routed experts, [expert, out, in]) are orthogonalised one by one. The factor 0.2 sqrt(max(out,
in)) gives an update the size of AdamW's, so both can share a learning rate.
"""

import torch

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic whose iteration drives singular values towards one
ITERATIONS = 5
# Matrices by shape that are tables or vectors by meaning.
NOT_MATRICES = (
    "embed_tokens.weight",
    "lm_head.weight",
    "gate.weight",
    "res_proj.weight",
    "conv1d.weight",
    "b_proj.weight",
)


# bfloat16 is enough for the iteration, and where a CPU multiplies it, faster; elsewhere it is ten times slower than float32.
WORKING_TYPE = torch.bfloat16 if torch.cpu._is_avx512_bf16_supported() else torch.float32


def orthogonalised(x):
    """[..., out, in], by Newton-Schulz."""
    a, b, c = COEFFICIENTS
    x = x.to(WORKING_TYPE)
    x = x / (x.flatten(-2).norm(dim=-1)[..., None, None] + 1e-7)
    wide = x.shape[-2] > x.shape[-1]
    x = x.mT if wide else x
    for _ in range(ITERATIONS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return (x.mT if wide else x).float()


class Muon(torch.optim.Optimizer):
    def __init__(self, parameters, lr, momentum=0.95, weight_decay=0.05):
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.update(p, group)

    def update(self, p, group):
        state = self.state[p]
        if not state:
            state["momentum"] = torch.zeros_like(p)
        momentum = state["momentum"].lerp_(p.grad, 1 - group["momentum"])
        looked_ahead = p.grad.lerp(momentum, group["momentum"])
        p.mul_(1 - group["lr"] * group["weight_decay"])
        p.add_(orthogonalised(looked_ahead), alpha=-group["lr"] * 0.2 * max(p.shape[-2:]) ** 0.5)


def is_matrix(name, parameter):
    return parameter.dim() >= 2 and not name.endswith(NOT_MATRICES)


def optimisers(model, lr):
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    matrices = [p for n, p in named if is_matrix(n, p)]
    others = [p for n, p in named if not is_matrix(n, p)]
    return [Muon(matrices, lr), torch.optim.AdamW(others, lr, betas=(0.9, 0.95), weight_decay=0.0, foreach=True)]
