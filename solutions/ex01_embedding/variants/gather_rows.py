"""Unusual: gather with an expanded index; the padding gradient is cleared after it has been accumulated."""

import torch
import torch.nn as nn


class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size: int, dim: int, padding_idx=None) -> None:
        nn.Module.__init__(self)
        self.vocab_size, self.dim, self.padding_idx = vocab_size, dim, padding_idx
        self.weight = nn.Parameter(torch.Tensor(vocab_size, dim))
        self.reset_parameters()
        if padding_idx is not None:

            def clear(parameter):
                parameter.grad[padding_idx] = 0

            self.weight.register_post_accumulate_grad_hook(clear)

    @torch.no_grad()
    def reset_parameters(self):
        self.weight.uniform_(-1, 1)
        if self.padding_idx is not None:
            self.weight[self.padding_idx].fill_(0)

    def forward(self, ids):
        if ids.dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            raise TypeError("got " + repr(ids.dtype))
        bad = [i for i in ids.reshape(-1).tolist() if i not in range(self.vocab_size)]
        if bad:
            raise IndexError("unknown ids: " + ", ".join(map(str, bad)))
        index = ids.to(torch.long).contiguous().view(-1, 1).expand(-1, self.dim)
        return torch.gather(self.weight, 0, index).unflatten(0, ids.shape) if ids.dim() else self.weight[int(ids)]


def one_hot_embedding(ids, weight):
    one_hot = torch.zeros(*ids.shape, weight.shape[0], dtype=weight.dtype)
    one_hot.scatter_(-1, ids.unsqueeze(-1), torch.ones_like(ids, dtype=weight.dtype).unsqueeze(-1))
    return torch.nn.functional.linear(one_hot, weight.T)
