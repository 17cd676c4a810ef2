"""trl: the trainers of preferences and of rewards, for a tiny Llama with random weights, and their functions."""

import copy
from pathlib import Path
from typing import Any

import pytest
import rustdev.integrations
import torch
from datasets import Dataset
from programs.beside import agree
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, RewardConfig, RewardTrainer, SFTConfig, SFTTrainer
from trl.trainer.utils import entropy_from_logits, selective_log_softmax

SIZES = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
WORDS = ["one", "two", "three", "four", "red", "green", "blue"]
ROWS = 8


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer of words."""
    names = ["<pad>", "<s>", "</s>", "<unk>", *WORDS]
    made = Tokenizer(models.WordLevel({name: index for index, name in enumerate(names)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def sentence(seed: int, length: int) -> str:
    """Return some words."""
    return " ".join(WORDS[(seed * 3 + index * index) % len(WORDS)] for index in range(length))


PAIRS = {
    "prompt": [sentence(row, 3) for row in range(ROWS)],
    "chosen": [sentence(row + 1, 4 + row % 3) for row in range(ROWS)],
    "rejected": [sentence(row + 2, 5) for row in range(ROWS)],
}
OPTIONS: dict[str, Any] = {
    "max_steps": 3, "per_device_train_batch_size": 4, "report_to": "none", "save_strategy": "no", "logging_steps": 1, "bf16": False,
    "disable_tqdm": True, "learning_rate": 1e-2, "gradient_checkpointing": False, "dataloader_pin_memory": False,
}  # fmt: skip


def train(kind: str, device: str, folder: Path) -> list[torch.Tensor]:
    """Train some steps, and return the weights."""
    rustdev.integrations.enable()
    torch.manual_seed(1)
    config = LlamaConfig(**SIZES, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    options = OPTIONS | {"use_cpu": device == "cpu", "output_dir": str(folder)}
    if kind == "sft":
        rows = Dataset.from_dict({"text": [sentence(row, 8) for row in range(ROWS)]})
        trainer = SFTTrainer(LlamaForCausalLM(config), SFTConfig(**options), train_dataset=rows, processing_class=tokenizer())
    elif kind == "dpo":
        model, rows = LlamaForCausalLM(config), Dataset.from_dict(PAIRS)
        # Without one, the trainer loads the reference by the model's name, which a model of random weights has none of.
        reference = copy.deepcopy(model)
        trainer = DPOTrainer(model, reference, DPOConfig(**options), train_dataset=rows, processing_class=tokenizer())
    else:
        model = LlamaForSequenceClassification(LlamaConfig(**SIZES, pad_token_id=0, num_labels=1))
        rows = Dataset.from_dict({name: PAIRS[name] for name in ("chosen", "rejected")})
        trainer = RewardTrainer(model, RewardConfig(**options), train_dataset=rows, processing_class=tokenizer())
    trainer.train()
    return [weight.detach() for weight in trainer.model.parameters()]


@pytest.mark.parametrize("kind", ["sft", "dpo", "reward"])
def test_trainers(kind: str, tmp_path: Path) -> None:
    agree(lambda device: train(kind, device, tmp_path), 1e-2)


def test_functions_of_logits() -> None:
    logits, words = torch.randn(2, 9, 64), torch.randint(0, 64, (2, 9))
    agree(lambda device: [selective_log_softmax(logits.to(device), words.to(device)), entropy_from_logits(logits.to(device))])
