"""ex11: let a language model write: choose a token, append it, ask again.

Letters: B rows (independent texts), T tokens so far, V vocabulary.
"""

import torch
from torch import Tensor, nn


def next_token(
    logits: Tensor, temperature: float = 1.0, top_k: int | None = None, generator: torch.Generator | None = None
) -> Tensor:
    """Choose one token for each row of `logits [B, V]`: int64 [B].

    - Row b is drawn from `softmax(logits[b] / temperature)`, each row by itself, independent of the others.
    - `temperature=0` draws nothing: it means the token with the largest logit.
    - With `top_k`, only the `top_k` largest logits of each row take part, and their probabilities sum to 1 again.
      `top_k=1` is the largest logit; a `top_k` above V leaves all of them in.
    - With `generator`, all that is random comes from it: the same state of the generator gives the same tokens, and
      nothing else has a say (`torch.multinomial`, `torch.rand`, ... take `generator=`). Without, use torch's own.
    - `logits` stay as they are.

    Raises:
        ValueError: `temperature < 0`, or `top_k < 1` (also when the temperature is 0); the message names the value.
    """
    raise NotImplementedError("ex11: next_token is not implemented yet")


def generate(
    model: nn.Module,
    idx: Tensor,
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Continue each row of `idx [B, T]` by `max_new_tokens` tokens: [B, T + max_new_tokens], the prompt first.

    `model` turns ids [B, t] into logits [B, t, V] and takes at most `model.max_len` tokens; the prompt may be longer.
    - Each step feeds the model exactly the last `min(t, model.max_len)` of the t tokens there are, and chooses the
      next one from the logits of the last position, as `next_token` does with the same arguments.
    - The model runs in eval mode and without gradients. Afterwards `model.training` is what it was before, and
      whether the caller has gradients switched on is the caller's business.
    - `idx` stays as it is, and so do the model's logits.

    Raises:
        ValueError: as `next_token`.
    """
    raise NotImplementedError("ex11: generate is not implemented yet")
