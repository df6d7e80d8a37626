"""Unusual: masked softmax as an autograd.Function with its own backward; results in another memory layout."""

import torch


class MaskedSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, mask):
        filled = scores.clone().masked_fill_(~mask, torch.finfo(scores.dtype).min / 2)
        powers = filled.sub_(filled.amax(-1, True)).exp_().mul_(mask)
        weights = powers / powers.sum(-1, True).clamp_(min=0.5)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx, g):
        (w,) = ctx.saved_tensors
        return w * (g - (w * g).sum(-1, keepdim=True)), None


def causal_mask(T):
    return torch.arange(T).unsqueeze(1).ge(torch.arange(T))


def padding_mask(ids, pad_id):
    return (ids != pad_id).unflatten(0, (-1, 1, 1))


def combine_masks(*masks):
    mask = None
    for other in masks:
        mask = other if mask is None else other & mask
    return mask


def masked_softmax(scores, mask):
    return MaskedSoftmax.apply(scores, mask)


def causal_attention(q, k, v, padding=None):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # [B, T, H, D]
    scores = torch.einsum("bthd,bshd->bhts", q, k).div(q.shape[-1] ** 0.5)
    mask = causal_mask(q.shape[1])
    mask = mask[None, None] if padding is None else combine_masks(padding, mask[None, None])
    weights = masked_softmax(scores, mask)
    return torch.einsum("bhts,bshe->bthe", weights, v).permute(0, 2, 1, 3)  # not contiguous
