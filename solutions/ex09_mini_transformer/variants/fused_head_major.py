"""The course's names, but qkv is stored head by head as k, v, q, matrices lie [in, out], and norms are hand-made."""

import math

import torch
from torch import nn


class Affine(nn.Module):
    def __init__(self, fan_in, fan_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(fan_in, fan_out) * fan_in**-0.5)
        self.bias = nn.Parameter(torch.zeros(fan_out))

    def forward(self, x):
        return torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], -1)


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return torch.addcmul(self.bias, (x - mean) * torch.rsqrt(variance + 1e-5), self.weight)


class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = Affine(width, 3 * width), Affine(width, width)

    def forward(self, x):
        B, T, C = x.shape
        k, v, q = self.qkv(x).view(B, T, self.heads, 3, C // self.heads).transpose(1, 2).unbind(3)  # each [B, H, T, D]
        places = torch.arange(T, device=x.device)
        scores = torch.where(places[:, None] >= places, q @ k.mT / math.sqrt(C / self.heads), -torch.inf)
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.mlp = nn.Sequential(Affine(width, hidden), nn.GELU(), Affine(hidden, width), nn.Dropout(0.3))
        self.n2 = Norm(width)
        self.attn = CausalSelfAttention(width, heads)
        self.n1 = Norm(width)

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class MiniTransformer(nn.Module):
    def __init__(self, vocab=50, d_model=32, n_heads=4, n_layers=2, max_len=32, d_ff=64):
        super().__init__()
        self.register_buffer("max_len", torch.tensor(max_len))
        self.tok_emb, self.pos_emb = nn.Embedding(vocab, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList([Block(d_model, n_heads, d_ff) for _ in range(n_layers)])
        self.ln, self.head = Norm(d_model), nn.Linear(d_model, vocab)
        self.apply(self._init)

    @staticmethod
    def _init(module):
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, idx):
        T = idx.shape[1]
        if T > self.max_len:
            raise IndexError(f"index {T} is out of range for a table of {int(self.max_len)}")
        x = torch.nn.functional.one_hot(idx, self.head.out_features).to(self.ln.weight.dtype) @ self.tok_emb.weight
        x = x + self.pos_emb.weight[None, :T]
        for block in self.blocks:
            x = block(x)
        return self.ln(x) @ self.head.weight.T + self.head.bias
