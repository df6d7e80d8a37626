"""The fused attention kernel is seen under every name, and its result can be spoiled."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as alias

from grader.wire import KernelCall, Spoil
from grader.worker.kernel import release_kernel, watching_kernel

pytestmark = pytest.mark.filterwarnings("ignore")  # of TorchScript

SEEN = torch.ones(5, 5, dtype=torch.bool).tril()


def scripted(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    run = torch.jit.script(kernel)
    return run(q, k, v)


def kernel(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def with_backend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    with sdpa_kernel(SDPBackend.MATH):
        return alias(q, k, v)


def inside_a_library_module(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    attention = torch.nn.MultiheadAttention(6, 2, batch_first=True)
    return attention(q[:, 0], k[:, 0], v[:, 0], need_weights=False)[0]


NAMES = {
    "function": kernel,
    "alias": alias,
    "builtin": torch._C._nn.scaled_dot_product_attention,
    "operator": torch.ops.aten.scaled_dot_product_attention,
    "overload": torch.ops.aten.scaled_dot_product_attention.default,
    "scripted": scripted,
    "vmap": torch.vmap(alias),
    "backend": with_backend,
    "module": inside_a_library_module,
}


@pytest.fixture
def qkv() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(3, 2, 5, 6, generator=generator, requires_grad=True) for _ in range(3)]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_seen_under_every_name(name: str, qkv: list[torch.Tensor]) -> None:
    calls: list[KernelCall] = []
    with watching_kernel(calls, None):
        NAMES[name](*qkv)
    assert calls == [KernelCall(masked=False, is_causal=False, dropout_p=0.0)]


def test_its_arguments_are_told_by_place_and_by_name(qkv: list[torch.Tensor]) -> None:
    calls: list[KernelCall] = []
    with watching_kernel(calls, None):
        alias(*qkv, SEEN, 0.25)
        alias(*qkv, is_causal=True)
    assert calls == [KernelCall(True, False, 0.25), KernelCall(False, True, 0.0)]


def test_a_refused_call_is_seen_too(qkv: list[torch.Tensor]) -> None:
    calls: list[KernelCall] = []
    q, k, v = qkv
    with watching_kernel(calls, None), pytest.raises(RuntimeError):
        alias(q, k, v[..., :4], attn_mask=SEEN, is_causal=True)  # with values as wide as keys it is not refused
    assert calls == [KernelCall(True, True, 0.0)]


@pytest.mark.parametrize("name", ["function", "overload", "scripted", "vmap"])
def test_one_element_is_spoiled(name: str, qkv: list[torch.Tensor]) -> None:
    plain = alias(*qkv)
    with watching_kernel([], Spoil(add=-2.0, at=1.0)):
        spoiled = NAMES[name](*qkv)
    differences = (spoiled - plain).detach()
    differing = differences.abs() > 1e-5
    assert int(differing.sum()) == (3 if name == "vmap" else 1)  # vmap: one in each of its calls
    assert torch.allclose(differences[differing], torch.tensor(-2.0), atol=1e-5)


def test_the_result_can_be_silenced_and_gradients_pass(qkv: list[torch.Tensor]) -> None:
    with watching_kernel([], Spoil(scale=0.0)):
        assert bool((alias(*qkv) == 0).all())
    with watching_kernel([], Spoil(scale=2.0)):
        alias(*qkv).sum().backward()
    assert all(tensor.grad is not None for tensor in qkv)


def test_afterwards_it_is_as_before(qkv: list[torch.Tensor]) -> None:
    calls: list[KernelCall] = []
    plain = alias(*qkv)
    with watching_kernel(calls, Spoil(scale=0.0)):
        pass
    assert torch.equal(alias(*qkv), plain)
    assert calls == []


@pytest.mark.parametrize("name", NAMES)
def test_between_two_watched_calls_and_after_its_release_nothing_is_seen(name: str, qkv: list[torch.Tensor]) -> None:
    calls: list[KernelCall] = []
    with torch.random.fork_rng():
        torch.manual_seed(0)
        plain = NAMES[name](*qkv)
        for leave in (lambda: None, release_kernel):
            with watching_kernel(calls, Spoil(scale=0.0)):
                NAMES[name](*qkv)
            seen = len(calls)
            leave()
            torch.manual_seed(0)
            assert torch.equal(NAMES[name](*qkv), plain)
            assert len(calls) == seen
    assert calls
