"""Unusual: splitting by index; every head works on the whole width with the other heads' channels set to zero, and the outputs are added."""

import torch


def split_heads(x, num_heads):
    if x.shape[2] // num_heads * num_heads != x.shape[2]:
        raise ValueError(f"width={x.shape[2]}, num_heads={num_heads}")
    width = x.shape[2] // num_heads
    channel = torch.arange(x.shape[2]).reshape(num_heads, 1, 1, width)
    batch = torch.arange(x.shape[0])
    time = torch.arange(x.shape[1])[:, None]
    return x[batch[:, None, None, None], time[None, None], channel[:, 0][None]]


def merge_heads(x):
    out = x.new_zeros(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])
    for h, head in enumerate(x.unbind(1)):
        out[:, :, h * x.shape[3] : (h + 1) * x.shape[3]] = head
    return out


def multi_head_attention(qkv, num_heads):
    width = qkv.shape[-1] // 3
    if width % num_heads != 0:
        raise ValueError(f"{num_heads} heads")
    q, k, v = qkv[..., :width], qkv[..., width : 2 * width], qkv[..., 2 * width :]
    owner = torch.arange(width) * num_heads // width
    out = 0
    for h in range(num_heads):
        mine = (owner == h).to(qkv.dtype)
        weights = torch.softmax((q * mine) @ (k * mine).mT * (num_heads / width) ** 0.5, dim=-1)
        out = out + weights @ (v * mine)
    return out


def score_count(B, T, num_heads):
    return B * (num_heads * pow(T, 2))
