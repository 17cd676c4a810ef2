"""Models of Hugging Face's transformers with random weights against the CPU: training, experts, generation with a cache."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest
import torch
from compared_models import check_float32, check_float64, trained
from torch import Tensor, nn
from torch.nn import functional
from training_loop import Family, adamw
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    DynamicCache,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    StaticCache,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WORDS, PADDING, MASK = 50, 0, 1


@pytest.fixture(autouse=True)
def _without_fallback() -> Iterator[None]:
    torch.rustdev.set_fallback_mode("error")
    yield
    torch.rustdev.set_fallback_mode("allow")


class Scores(nn.Module):
    """What a model of transformers scores, without the rest of its answer."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, words: Tensor, is_word: Tensor) -> Tensor:
        scores: Tensor = self.model(input_ids=words, attention_mask=is_word).logits
        return scores


def make_bert() -> BertForMaskedLM:
    config = BertConfig(
        vocab_size=WORDS, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
        max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return BertForMaskedLM(config)


def make_llama() -> LlamaForCausalLM:
    """A decoder whose four heads of queries share two heads of keys."""
    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96,
        max_position_embeddings=64, initializer_range=0.2, bos_token_id=None, eos_token_id=None, pad_token_id=PADDING,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def make_mixtral() -> MixtralForCausalLM:
    config = MixtralConfig(
        vocab_size=WORDS, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64,
        num_local_experts=4, max_position_embeddings=64, pad_token_id=PADDING,
    )  # fmt: skip
    return MixtralForCausalLM(config)


def make_deepseek() -> DeepseekV3ForCausalLM:
    """Latent attention, groups of experts and a shared one."""
    config = DeepseekV3Config(
        vocab_size=WORDS, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, intermediate_size=96,
        moe_intermediate_size=32, n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1, first_k_dense_replace=1,
        q_lora_rank=24, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=12, max_position_embeddings=64,
        pad_token_id=PADDING,
    )  # fmt: skip
    return DeepseekV3ForCausalLM(config)


def sentences(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Words [8, 16] that count on from any of them, and which of them are there: sentences differ in length."""
    words = (torch.randint(WORDS, (8, 1), generator=generator) + torch.arange(16)) % (WORDS - 2) + 2
    is_word = torch.arange(16) < torch.randint(8, 17, (8, 1), generator=generator)
    return torch.where(is_word, words, PADDING), is_word.long()


def masked(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Sentences with some words masked; what shall be found there, and -100 elsewhere."""
    words, is_word = sentences(generator)
    is_masked = (torch.rand(words.shape, generator=generator) < 0.2) & (is_word == 1)
    is_masked[:, 1] = True
    return torch.where(is_masked, MASK, words), is_word, torch.where(is_masked, words, -100)


def continued(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Sentences, and the next word at each place; -100 where there is none."""
    words, is_word = sentences(generator)
    return words[:, :-1], is_word[:, :-1], torch.where(is_word[:, 1:] == 1, words[:, 1:], -100)


def loss(scores: Tensor, wanted: Tensor) -> Tensor:
    return functional.cross_entropy(scores.flatten(0, 1), wanted.flatten())


FAMILIES = {
    "bert": Family(lambda: Scores(make_bert()), masked, loss, adamw),
    "llama": Family(lambda: Scores(make_llama()), continued, loss, adamw),
}
each_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())


def test_steps_in_float64_are_the_cpus() -> None:
    # Llama has none: its normalisation computes in float32, whatever it is given.
    check_float64(FAMILIES["bert"])


@each_family
def test_steps_in_float32_are_as_near_as_the_cpus(family: Family) -> None:
    check_float32(family, is_smooth=True)
    losses = trained(family, "rustdev").losses
    assert losses[-5:].mean() < losses[:5].mean()


@each_family
def test_hidden_states_are_the_cpus(family: Family) -> None:
    torch.manual_seed(0)
    model = family.network().model.eval()
    words, is_word = sentences(torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted = model(words, attention_mask=is_word, output_hidden_states=True)
        model.to("rustdev")
        found = model(words.to("rustdev"), attention_mask=is_word.to("rustdev"), output_hidden_states=True)
    for one, other in zip((*found.hidden_states, found.logits), (*wanted.hidden_states, wanted.logits), strict=True):
        there = is_word.bool()
        torch.testing.assert_close(one.cpu()[there], other[there], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [make_mixtral, make_deepseek], ids=lambda make: make.__name__)
def test_experts_are_the_cpus(make: Callable[[], nn.Module]) -> None:
    """Routing counts its tokens with an operator in integers on every device but the CPU."""
    torch.manual_seed(0)
    network = make().eval()
    words, is_word = sentences(torch.Generator().manual_seed(0))
    copied = copy.deepcopy(network).to("rustdev")
    wanted = network(input_ids=words, attention_mask=is_word, labels=words)
    found = copied(input_ids=words.to("rustdev"), attention_mask=is_word.to("rustdev"), labels=words.to("rustdev"))
    torch.testing.assert_close(found.logits.cpu()[is_word.bool()], wanted.logits[is_word.bool()], rtol=1e-4, atol=1e-4)
    wanted.loss.backward()
    found.loss.backward()
    for (name, one), other in zip(copied.named_parameters(), network.parameters(), strict=True):
        if other.grad is not None:
            assert one.grad is not None, name
            torch.testing.assert_close(one.grad.cpu(), other.grad, rtol=1e-3, atol=1e-5, msg=name)


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
