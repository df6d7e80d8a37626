"""Raw parameters stacked over layers and heads, [L, H, C, D], used by einsum; the layers are a loop over an index."""

import torch
from torch import nn
from torch.nn import functional as F


class Stack(nn.Module):
    def __init__(self, layers, heads, width, hidden):
        super().__init__()

        def weight(*shape):
            return nn.Parameter(0.1 * torch.randn(layers, *shape))

        inner = width // heads
        self.W_QKV, self.b_QKV = weight(3, heads, width, inner), weight(3, heads, inner)
        self.W_O, self.b_O = weight(heads, inner, width), weight(width)
        self.W_in, self.b_in = weight(width, hidden), weight(hidden)
        self.W_out, self.b_out = weight(hidden, width), weight(width)
        self.gain = nn.Parameter(torch.ones(layers, 2, width))
        self.shift = nn.Parameter(torch.zeros(layers, 2, width))

    def norm(self, x, layer, which):
        return F.layer_norm(x, x.shape[-1:], self.gain[layer, which], self.shift[layer, which])

    def forward(self, x):
        for n in range(len(self.W_O)):
            projected = torch.einsum("btc,khcd->kbhtd", self.norm(x, n, 0), self.W_QKV[n])
            q, k, v = projected + self.b_QKV[n][:, None, :, None]
            heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + torch.einsum("bhtd,hdc->btc", heads, self.W_O[n]) + self.b_O[n]
            x = x + F.gelu(self.norm(x, n, 1) @ self.W_in[n] + self.b_in[n]) @ self.W_out[n] + self.b_out[n]
        return x


class MiniTransformer(nn.Module):
    def __init__(self, vocab=50, d_model=32, n_heads=4, n_layers=2, max_len=32, d_ff=64):
        super().__init__()
        self.max_len = max_len
        self.tok_emb = nn.Embedding(vocab, d_model)
        self.pos_emb = nn.Parameter(torch.randn(max_len, d_model))
        self.blocks = Stack(n_layers, n_heads, d_model, d_ff)
        self.ln = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab)

    def forward(self, idx):
        steps = idx.shape[1]
        if steps > self.max_len:
            raise IndexError(f"position {steps - 1} of {steps} does not exist: max_len={self.max_len}")
        return self.head(self.ln(self.blocks(self.tok_emb(idx) + self.pos_emb.narrow(0, 0, steps))))
