"""Hugging Face's trl: trainers of a small Llama with random weights, from texts, from preferences, and from rewards."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import torch
from conftest import forget_devices, losses_of
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, RewardConfig, RewardTrainer, SFTConfig, SFTTrainer

if TYPE_CHECKING:
    from pathlib import Path

SIZES = {"vocab_size": 16, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
WORDS = ["one", "two", "three", "four", "red", "green", "blue"]
ROWS = 8
PARTS = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def tokenizer() -> PreTrainedTokenizerFast:
    names = [*PARTS.values(), *WORDS]
    made = Tokenizer(models.WordLevel({name: index for index, name in enumerate(names)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, **PARTS)


def sentence(seed: int, length: int) -> str:
    return " ".join(WORDS[(seed * 3 + index * index) % len(WORDS)] for index in range(length))


def reward(completions: list[str], **columns: Any) -> list[float]:
    """Return how many of the words of each answer are colours."""
    return [sum(word in ("red", "green", "blue") for word in text.split()) / 4 for text in completions]


def model() -> LlamaForCausalLM:
    torch.manual_seed(1)
    return LlamaForCausalLM(LlamaConfig(**SIZES, pad_token_id=0, bos_token_id=1, eos_token_id=2))


def trained(kind: str, directory: Path, **options: Any) -> Any:
    """Return a trainer that has trained for three steps."""
    common = {
        "output_dir": str(directory), "max_steps": 3, "per_device_train_batch_size": 4, "report_to": "none", "save_strategy": "no",
        "logging_steps": 1, "bf16": False, "disable_tqdm": True, "learning_rate": 1e-2, "gradient_checkpointing": False,
    } | options  # fmt: skip
    pairs = {
        "prompt": [sentence(row, 3) for row in range(ROWS)],
        "chosen": [sentence(row + 1, 4 + row % 3) for row in range(ROWS)],
        "rejected": [sentence(row + 2, 5) for row in range(ROWS)],
    }
    words: dict[str, Any] = {"processing_class": tokenizer()}
    if kind.startswith("SFT"):
        words["peft_config"] = LoraConfig(r=4, target_modules=["q_proj", "v_proj"]) if "LoRA" in kind else None
        rows = Dataset.from_dict({"text": [sentence(row, 8) for row in range(ROWS)]})
        trainer = SFTTrainer(model(), SFTConfig(**common), train_dataset=rows, **words)
    elif kind == "DPO":
        policy = model()
        # Without a reference the trainer loads it by the model's name, which a model of random weights has none of.
        trainer = DPOTrainer(policy, copy.deepcopy(policy), DPOConfig(**common), train_dataset=Dataset.from_dict(pairs), **words)
    elif kind == "GRPO":
        config = GRPOConfig(**common, num_generations=4, max_completion_length=4)
        rows = Dataset.from_dict({"prompt": pairs["prompt"]})
        trainer = GRPOTrainer(model(), reward, config, train_dataset=rows, **words)
    else:
        torch.manual_seed(1)
        judge = LlamaForSequenceClassification(LlamaConfig(**SIZES, pad_token_id=0, num_labels=1))
        rows = Dataset.from_dict({name: pairs[name] for name in ("chosen", "rejected")})
        trainer = RewardTrainer(judge, RewardConfig(**common), train_dataset=rows, **words)
    trainer.train()
    return trainer


@pytest.mark.parametrize("kind", ["SFT", "SFT with LoRA", "DPO", "reward"])
def test_training_is_the_cpus(kind: str, tmp_path: Path) -> None:
    trainer = trained(kind, tmp_path)
    assert {weight.device.type for weight in trainer.model.parameters()} == {"rustdev"}
    losses = losses_of(trainer)
    assert len(losses) == 3
    forget_devices()
    on_cpu = trained(kind, tmp_path, use_cpu=True)
    assert {weight.device.type for weight in on_cpu.model.parameters()} == {"cpu"}
    assert losses == pytest.approx(losses_of(on_cpu), rel=1e-3)


def test_rewards_of_what_it_writes(tmp_path: Path) -> None:
    trainer = trained("GRPO", tmp_path, max_steps=15, learning_rate=2e-2)
    assert trainer.model.device.type == "rustdev"
    rewards = losses_of(trainer, "reward")
    assert len(rewards) == 15
    assert sum(rewards[-3:]) > sum(rewards[:3])


def test_bfloat16(tmp_path: Path) -> None:
    trainer = trained("SFT", tmp_path, bf16=True, gradient_checkpointing=True)
    losses = losses_of(trainer)
    assert losses[-1] < losses[0]
