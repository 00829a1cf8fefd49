"""Kimi Delta Attention: a short convolution, then a delta rule on a decaying matrix state.

`recurrence` (token by token) is the definition. `chunked` computes the same values chunk by chunk with matrix
products, for prompts and for training. Both start from a given state and return the state after the last token.

Shapes: B sequences, T tokens, H heads, K channels per head (keys and values have the same number).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from layers import RmsNorm, linear, rms_norm

L2_NORM_EPS = 1e-6
# exp() of float32 overflows above 88; `chunked` meets exponents of half a chunk's decay on either side of its middle.
LARGEST_EXPONENT = 85.0


@dataclass
class KdaState:
    """What a sequence carries from call to call."""

    conv_q: torch.Tensor  # [B, width-1, H*K]: the last projected inputs of each convolution
    conv_k: torch.Tensor
    conv_v: torch.Tensor
    s: torch.Tensor  # [B, H, K, K] float32, [key, value]


def short_conv(x, weight, past):
    """Depthwise causal convolution, then SiLU. x [B, T, C], weight [C, 1, width], past [B, width-1, C].

    The last tap meets the current token. Returns ([B, T, C], the inputs to carry).
    """
    width, tokens = weight.shape[-1], x.shape[1]
    window = torch.cat([past, x], dim=1)
    y = sum(window[:, tap : tap + tokens].float() * weight[:, 0, tap] for tap in range(width))
    return F.silu(y).to(x.dtype), window[:, tokens:]


def l2_normalised(x):
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + L2_NORM_EPS)


def normalised_query(q):
    """q [..., K]: scaled by K^-0.5 after its normalisation."""
    return l2_normalised(q) * q.shape[-1] ** -0.5


def log_decay(g, a_log, dt_bias, lower_bound):
    """log(alpha) of each channel, in [lower_bound, 0]. g [B, T, H, K], a_log [H], dt_bias [H*K]."""
    rate = torch.exp(a_log)[:, None]
    return lower_bound * torch.sigmoid(rate * (g.float() + dt_bias.view(g.shape[-2:])))


def step(s, q, k, v, alpha, beta):
    """One token. s [B, H, K, V]; q, k, alpha [B, H, K]; v [B, H, V]; beta [B, H]. Returns (o [B, H, V], s)."""
    s = alpha[..., None] * s
    u = beta[..., None] * (v - torch.einsum("bhkv,bhk->bhv", s, k))
    s = s + k[..., None] * u[..., None, :]
    return torch.einsum("bhkv,bhk->bhv", s, q), s


def recurrence(q, k, v, log_alpha, beta, s):
    """q, k, v, log_alpha [B, T, H, K], beta [B, T, H], s [B, H, K, V], all float32. Returns (o [B, T, H, V], s)."""
    outputs = []
    for t in range(q.shape[1]):
        o, s = step(s, q[:, t], k[:, t], v[:, t], torch.exp(log_alpha[:, t]), beta[:, t])
        outputs.append(o)
    return torch.stack(outputs, dim=1), s


def _into_chunks(x, chunk):
    """[B, T, H, ...] -> [B, H, N, chunk, ...]; missing tokens are zeros, which neither decay nor change the state."""
    pad = -x.shape[1] % chunk
    if pad:
        x = torch.cat([x, x.new_zeros(x.shape[0], pad, *x.shape[2:])], dim=1)
    return x.unflatten(1, (-1, chunk)).movedim(3, 1)


def chunk_factors(q, k, v, log_alpha, beta):
    """The elementwise part of `chunked`. Everything [B, H, N, C, K], but beta [B, H, N, C, 1].

    With G the cumulative log-decay of a chunk, tokens i and j < i meet with the factor exp(G_i - G_j). It is split
    at the chunk's middle M into exp(G_i - M) on the later token and exp(M - G_j) on the earlier one.
    Returns q and k as the later token, k as the earlier; beta k exp(G) beside beta v; q exp(G); k exp(G_last - G).
    """
    g = log_alpha.cumsum(-2)
    middle = g[..., g.shape[-2] // 2 - 1, None, :]
    later, earlier, decayed = torch.exp(g - middle), torch.exp(middle - g), torch.exp(g)
    rhs = torch.cat([beta * k * decayed, beta * v], dim=-1)
    return q * later, beta * k * later, k * earlier, rhs, q * decayed, k * torch.exp(g[..., -1:, :] - g)


def chunked(q, k, v, log_alpha, beta, s, chunk, lower_bound):
    """The same as `recurrence`, `chunk` tokens at a time.

    The factors of `chunk_factors` stay finite as long as half a chunk of the strongest decay does, which the bounded
    gate guarantees for the chunk sizes accepted here.
    """
    if chunk < 2 or -lower_bound * chunk / 2 > LARGEST_EXPONENT:
        raise ValueError(f"chunks of {chunk} tokens: at least 2, and few enough for gate_lower_bound {lower_bound}")
    tokens = q.shape[1]
    q, k, v, log_alpha, beta = (_into_chunks(x, chunk) for x in (q, k, v, log_alpha, beta[..., None]))
    q_later, k_later, k_earlier, rhs, q_decayed, k_to_end = chunk_factors(q, k, v, log_alpha, beta)

    # u_i = beta_i (v_i - k_i' decayed S - sum_{j<i} a_ij u_j)  =>  (I + A) u = beta v - (beta k exp(G)) S
    a = torch.tril(k_later @ k_earlier.mT, -1)
    w, u = torch.linalg.solve_triangular(a, rhs, upper=False, unitriangular=True).split(k.shape[-1], dim=-1)

    chunk_decay = torch.exp(log_alpha.sum(-2))[..., None]
    states, updates = [], []
    for w_n, u_n, decay_n, k_n in zip(w.unbind(2), u.unbind(2), chunk_decay.unbind(2), k_to_end.mT.unbind(2)):
        states.append(s)
        updates.append(u_n - w_n @ s)
        s = decay_n * s + k_n @ updates[-1]

    within = torch.tril(q_later @ k_earlier.mT)
    o = q_decayed @ torch.stack(states, dim=2) + within @ torch.stack(updates, dim=2)
    return o.movedim(1, 3).flatten(1, 2)[:, :tokens], s


def gated_norm(o, z, weight, eps):
    """RMSNorm over each head, then the sigmoid gate, in float32, rounded to z's type. o, z [B, T, H, K]."""
    return (rms_norm(o.float(), weight, eps) * torch.sigmoid(z.float())).to(z.dtype)


class Kda(nn.Module):
    """`chunk`: None for the recurrence, else the tokens per chunk."""

    def __init__(self, config, dtype, chunk=None):
        super().__init__()
        self.config, self.chunk = config, chunk
        self.heads, self.head_dim = config.kda_num_heads, config.kda_head_dim
        hidden, width = config.hidden_size, self.heads * self.head_dim
        for name in "qkvg":
            setattr(self, f"{name}_proj", linear(hidden, width, dtype))
        for name in "qkv":
            conv = nn.Module()
            conv.weight = nn.Parameter(torch.zeros(width, 1, config.kda_conv_width))
            setattr(self, f"{name}_conv1d", conv)
        self.f_a_proj = linear(hidden, self.head_dim, dtype)
        self.f_b_proj = linear(self.head_dim, width, dtype)
        self.b_proj = linear(hidden, self.heads, dtype)
        self.dt_bias = nn.Parameter(torch.zeros(width))
        self.A_log = nn.Parameter(torch.zeros(self.heads))
        self.o_norm = RmsNorm(self.head_dim, config.rms_norm_eps, torch.float32)
        self.o_proj = linear(width, hidden, dtype)

    def start(self, x):
        batch, width = x.shape[0], self.heads * self.head_dim
        past = x.new_zeros(batch, self.config.kda_conv_width - 1, width)
        return KdaState(past, past, past, x.new_zeros(batch, self.heads, self.head_dim, self.head_dim).float())

    def forward(self, x, state=None):
        """x [B, T, hidden], normed. Returns (y [B, T, hidden], state)."""
        state = state or self.start(x)
        per_head = (self.heads, self.head_dim)
        q, conv_q = short_conv(self.q_proj(x), self.q_conv1d.weight, state.conv_q)
        k, conv_k = short_conv(self.k_proj(x), self.k_conv1d.weight, state.conv_k)
        v, conv_v = short_conv(self.v_proj(x), self.v_conv1d.weight, state.conv_v)
        q, k, v = (y.float().unflatten(-1, per_head) for y in (q, k, v))
        g = self.f_b_proj(self.f_a_proj(x)).unflatten(-1, per_head)
        log_alpha = log_decay(g, self.A_log, self.dt_bias, self.config.gate_lower_bound)
        beta = torch.sigmoid(self.b_proj(x).float())
        o, s = self.mix(normalised_query(q), l2_normalised(k), v, log_alpha, beta, state.s)
        z = self.g_proj(x).unflatten(-1, per_head)
        y = gated_norm(o.to(x.dtype), z, self.o_norm.weight, self.config.rms_norm_eps)
        return self.o_proj(y.flatten(-2)), KdaState(conv_q, conv_k, conv_v, s)

    def mix(self, q, k, v, log_alpha, beta, s):
        if self.chunk is None or q.shape[1] == 1:
            return recurrence(q, k, v, log_alpha, beta, s)
        with torch.autocast(q.device.type, enabled=False):
            return chunked(q, k, v, log_alpha, beta, s, self.chunk, self.config.gate_lower_bound)
