"""ex06: rotary position embedding (RoPE). A position turns the query and the key; only the difference is left over.

Letters: B batch, H heads, T query length, S key length, D width of a head (even).

Pairing: this file uses the half-split form. Channel n forms a pair with channel n + D/2. The other form in use,
interleaved, pairs channel 2n with 2n + 1; weights trained with one form do not work with the other.
"""

import math

import torch
from torch import Tensor


def rotate_half(x: Tensor) -> Tensor:
    """For x [..., D] return cat(-second half, first half) along the last axis: every pair (a, b) becomes (-b, a).

    Raises ValueError, with D in its message, if D is odd.
    """
    raise NotImplementedError("ex06: rotate_half is not implemented yet")


def rope_angles(positions: Tensor, head_dim: int, base: float = 10000.0) -> tuple[Tensor, Tensor]:
    """The tables (cos [T, D], sin [T, D]) of the angles positions[t] * theta_n, with D = head_dim.

    theta_n = base ** (-2n / D) for n = 0 .. D/2 - 1, and the D/2 angles are written twice, side by side, because both
    halves of a pair turn by the same angle. `positions [T]` are integers or floats (1.5 is a position), in any order,
    starting anywhere. The angles are computed in float32 or better, whatever the dtype of the positions: in float16
    the positions 4000 and 4001 are the same number.

    Raises ValueError, with head_dim in its message, if head_dim is odd.
    """
    raise NotImplementedError("ex06: rope_angles is not implemented yet")


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn x [B, H, T, D] by the angles of the tables cos, sin [T, D]: x * cos + rotate_half(x) * sin, [B, H, T, D].

    The answer has the dtype of x. One exception: x may be float16 or bfloat16 while the tables are float32, and then
    float32 is right as well. x stays as it is.
    """
    raise NotImplementedError("ex06: apply_rope is not implemented yet")


def rope_attention_scores(
    q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, base: float = 10000.0
) -> Tensor:
    """Scores of turned queries and keys: q [B, H, T, D], k [B, H, S, D] give [B, H, T, S], scaled by 1/sqrt(D).

    Queries stand at `q_positions [T]`, keys at `k_positions [S]`. While decoding with a cache T is small and the
    positions of the queries start where the cache ends. With half-precision q and k the angles are still computed in
    float32 or better; the scores may then be half or float32, else they have the dtype of q.
    """
    raise NotImplementedError("ex06: rope_attention_scores is not implemented yet")
