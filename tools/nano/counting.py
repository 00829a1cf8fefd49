"""Which experts the routers choose, counted while a model runs."""

import torch

import sizes  # noqa: F401  (finds the reference)

from moe import Router


def routers_of(model):
    return [module for module in model.modules() if isinstance(module, Router)]


def count_choices(router):
    """A tensor [experts] to which every pass through the router adds."""
    counts = torch.zeros(router.config.num_experts, dtype=torch.long)

    def add(_, __, output):
        counts.add_(torch.bincount(output[0].flatten(), minlength=len(counts)))

    router.register_forward_hook(add)
    return counts
