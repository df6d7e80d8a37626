"""nn.MultiheadAttention inside hand-built blocks, norms in a ModuleDict, dropout everywhere."""

import torch
from torch import nn


class DecoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.1):
        super().__init__()
        self.mha = nn.MultiheadAttention(d_model, n_heads, dropout=dropout, batch_first=True)
        self.norms = nn.ModuleDict({"second": nn.LayerNorm(d_model), "first": nn.LayerNorm(d_model)})
        self.w1 = nn.Linear(d_model, d_ff)
        self.w2 = nn.Linear(d_ff, d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask):
        h = self.norms["first"](x)
        a, _ = self.mha(h, h, h, attn_mask=mask, need_weights=False)
        x = x + self.drop(a)
        h = self.norms["second"](x)
        return x + self.drop(self.w2(torch.nn.functional.gelu(self.w1(h))))


class MiniTransformer(nn.Module):
    def __init__(
        self,
        vocab: int = 50,
        d_model: int = 32,
        n_heads: int = 4,
        n_layers: int = 2,
        max_len: int = 32,
        d_ff: int = 64,
        dropout: float = 0.1,
    ):
        super().__init__()
        self.max_len = max_len
        self.tok_emb = nn.Embedding(vocab, d_model)
        self.pos_emb = nn.Embedding(max_len, d_model)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList()
        for _ in range(n_layers):
            self.blocks.append(DecoderLayer(d_model, n_heads, d_ff, dropout))
        self.ln = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab)

    def forward(self, idx):
        b, t = idx.size()
        if t > self.max_len:
            raise ValueError(f"Cannot forward sequence of length {t}, block size is only {self.max_len}")
        mask = ~torch.tril(torch.ones(t, t, dtype=torch.bool, device=idx.device))
        x = self.drop(self.tok_emb(idx) + self.pos_emb(torch.arange(t, device=idx.device).unsqueeze(0)))
        for block in self.blocks:
            x = block(x, mask)
        logits = self.head(self.ln(x).reshape(b * t, -1))
        return logits.reshape(b, t, -1)
