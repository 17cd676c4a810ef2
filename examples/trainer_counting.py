"""Trains a tiny language model to count by transformers' Trainer, then generates text by a pipeline.

    python examples/trainer_counting.py [--epochs N] [--bf16]

Nothing is downloaded: the initial weights are random, the vocabulary has ten words, and a sentence counts from any of them, such as
"seven eight nine zero one". Requires the libraries that `make test-libraries` installs. Only the first line of main() is specific
to rustdev.
"""

from __future__ import annotations

import argparse
import sys
import tempfile

import rustdev.integrations
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, Trainer, TrainingArguments, pipeline, set_seed

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
LENGTH = 12
SENTENCES = 320
EPOCHS = 10
SEED = 7


def sentence(first: int, length: int) -> list[str]:
    """Return the words that count from a number; zero follows nine."""
    return [WORDS[(first + place) % len(WORDS)] for place in range(length)]


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with a token for each word."""
    vocabulary = {word: number for number, word in enumerate((*WORDS, "<end>"))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<end>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<end>")


def make_model() -> GPT2LMHeadModel:
    """Return a model with two layers, 30,000 parameters and random weights."""
    end = len(WORDS)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=end + 1, n_positions=2 * LENGTH, n_embd=32, n_layer=2, n_head=2,
            bos_token_id=end, eos_token_id=end, pad_token_id=end, loss_type="ForCausalLMLoss",
        )
    )  # fmt: skip


def train(epochs: int, bf16: bool) -> float:
    """Train, generate text, and return the fraction of correct words.

    Args:
        epochs: Number of epochs.
        bf16: Whether to train in bfloat16 mixed precision.
    """
    set_seed(SEED)
    tokenizer, model = make_tokenizer(), make_model()
    numbers = [tokenizer(" ".join(sentence(first, LENGTH)))["input_ids"] for first in range(SENTENCES)]
    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            directory, num_train_epochs=epochs, per_device_train_batch_size=32, learning_rate=5e-3, bf16=bf16,
            save_strategy="no", report_to=[], disable_tqdm=True, logging_steps=50,
        )  # fmt: skip
        rows = [{"input_ids": torch.tensor(row), "labels": torch.tensor(row)} for row in numbers]
        trainer = Trainer(model, arguments, train_dataset=rows)
        loss = trainer.train().training_loss

    writer = pipeline("text-generation", model=model, tokenizer=tokenizer)
    prompts = [" ".join(sentence(first, 3)) for first in range(len(WORDS))]
    texts = writer(prompts, max_new_tokens=5, do_sample=False, return_full_text=False)
    written = [text["generated_text"].split() for (text,) in texts]
    right = [
        word == wanted for first, words in enumerate(written) for word, wanted in zip(words, sentence(first + 3, 5), strict=False)
    ]
    reached: float = sum(right) / (5 * len(WORDS))
    print(f"{writer.device} ({'bf16' if bf16 else 'float32'}): loss {loss:.3f}, {reached:.0%} of the words right")
    print(f"  {prompts[7]} ... {' '.join(written[7])}")
    return reached


def main() -> None:
    """Read the command line and train."""
    rustdev.integrations.enable()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--bf16", action="store_true")
    arguments = parser.parse_args()

    reached = train(arguments.epochs, arguments.bf16)
    if arguments.epochs >= EPOCHS and reached < 1:
        sys.exit(f"the model writes {reached:.0%} of the words right, and should write all")


if __name__ == "__main__":
    main()
