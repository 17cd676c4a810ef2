"""Llama of Hugging Face's transformers with random weights: generation with a cache against the CPU, and autocast."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor
from transformers import (
    DynamicCache,
    LlamaConfig,
    LlamaForCausalLM,
    StaticCache,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

WORDS, PADDING, MASK = 50, 0, 1


@pytest.fixture(autouse=True)
def _without_fallback() -> Iterator[None]:
    torch.rustdev.set_fallback_mode("error")
    yield
    torch.rustdev.set_fallback_mode("allow")


def make_llama() -> LlamaForCausalLM:
    """A decoder whose four heads of queries share two heads of keys."""
    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96,
        max_position_embeddings=64, initializer_range=0.2, bos_token_id=None, eos_token_id=None, pad_token_id=PADDING,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def sentences(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Words [8, 16] that count on from any of them, and which of them are there: sentences differ in length."""
    words = (torch.randint(WORDS, (8, 1), generator=generator) + torch.arange(16)) % (WORDS - 2) + 2
    is_word = torch.arange(16) < torch.randint(8, 17, (8, 1), generator=generator)
    return torch.where(is_word, words, PADDING), is_word.long()


def prompts() -> tuple[Tensor, Tensor]:
    """Two beginnings, the shorter one padded on the left."""
    return torch.tensor([[0, 0, 7, 9], [5, 6, 7, 8]]), torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])


@pytest.mark.parametrize("options", [{}, {"use_cache": False}, {"cache_implementation": "static"}, {"num_beams": 3}], ids=str)
def test_generation_is_the_cpus(options: dict[str, object]) -> None:
    torch.manual_seed(0)
    model = make_llama().double().eval()
    words, is_word = prompts()
    wanted = model.generate(words, attention_mask=is_word, max_new_tokens=16, do_sample=False, **options)
    model.to("rustdev")
    words, is_word = words.to("rustdev"), is_word.to("rustdev")
    found = model.generate(words, attention_mask=is_word, max_new_tokens=16, do_sample=False, **options)
    assert found.device.type == "rustdev"
    assert found.tolist() == wanted.tolist()
    assert len(set(found[0, 4:].tolist())) > 2


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_a_cache_of_keys_and_values_changes_nothing(kind: str) -> None:
    torch.manual_seed(0)
    model = make_llama().to("rustdev").eval()
    words, _ = sentences(torch.Generator().manual_seed(1))
    words = words.to("rustdev")
    cache = DynamicCache(config=model.config) if kind == "dynamic" else StaticCache(config=model.config, max_cache_len=16)
    with torch.no_grad():
        whole = model(words, use_cache=False).logits
        parts = [
            model(
                words[:, first:last],
                cache=cache,
                use_cache=True,
                position_ids=torch.arange(first, last)[None].to("rustdev"),
            ).logits
            for first, last in ((0, 5), *((place, place + 1) for place in range(5, 16)))
        ]
    assert cache.get_seq_length() == 16
    assert cache.layers[0].keys.device.type == "rustdev"
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=1e-4, atol=1e-4)


def test_autocast() -> None:
    torch.manual_seed(0)
    model = make_llama().to("rustdev")
    words, is_word = (tensor.to("rustdev") for tensor in sentences(torch.Generator().manual_seed(0)))
    exact = model(words, attention_mask=is_word, labels=words)
    with torch.autocast("rustdev", torch.bfloat16):
        answer = model(words, attention_mask=is_word, labels=words)
    answer.loss.backward()
    assert answer.logits.dtype is torch.bfloat16
    torch.testing.assert_close(answer.loss, exact.loss, rtol=2e-2, atol=0)
    assert all(torch.isfinite(value.grad).all() for value in model.parameters())
