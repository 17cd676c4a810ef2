"""Hugging Face's transformers: the Trainer, pipelines, generation, and loading onto the device. All weights are random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from conftest import forget_devices, losses_of
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, Trainer, TrainingArguments, pipeline

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Programs

WORDS = 10


def make_model() -> GPT2LMHeadModel:
    torch.manual_seed(3)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=WORDS, n_positions=32, n_embd=32, n_layer=2, n_head=2, loss_type="ForCausalLMLoss",
            bos_token_id=None, eos_token_id=None, pad_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )
    )  # fmt: skip


def make_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordLevel({f"w{number}": number for number in range(WORDS)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="w0")


def train(directory: Path, **options: Any) -> tuple[Trainer, list[float]]:
    """Train for a few steps and return the trainer and the losses."""
    options = {"bf16": False, "seed": 3, "max_steps": 6, "per_device_train_batch_size": 8} | options
    arguments = TrainingArguments(
        str(directory), learning_rate=1e-2, logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True, **options
    )
    rows = [{"input_ids": torch.arange(first, first + 8) % WORDS} for first in range(64)]
    trainer = Trainer(make_model(), arguments, train_dataset=[row | {"labels": row["input_ids"]} for row in rows])
    trainer.train()
    return trainer, losses_of(trainer)


def products_of(trainer: Trainer) -> set[tuple[torch.dtype, str]]:
    """Return dtype and device of what the attention's projection returns in the model as the trainer wrapped it."""
    seen: set[tuple[torch.dtype, str]] = set()
    hook = trainer.model.transformer.h[0].attn.c_proj.register_forward_hook(
        lambda module, inputs, output: seen.add((output.dtype, output.device.type))
    )
    trainer.model(input_ids=torch.arange(4, device=trainer.model.device)[None])
    hook.remove()
    return seen


def test_training_is_the_cpus(tmp_path: Path) -> None:
    trainer, losses = train(tmp_path)
    assert trainer.args.device.type == trainer.model.device.type == "rustdev"
    forget_devices()
    on_cpu, wanted = train(tmp_path, use_cpu=True)
    assert on_cpu.args.device.type == on_cpu.model.device.type == "cpu"
    assert losses == pytest.approx(wanted, rel=1e-2)
    assert losses[-1] < losses[0] / 1.3


@pytest.mark.parametrize("options", [{}, {"gradient_accumulation_steps": 2}, {"activation_checkpointing": True}], ids=str)
def test_bfloat16(options: dict[str, Any], tmp_path: Path) -> None:
    trainer, losses = train(tmp_path, bf16=True, **options)
    assert products_of(trainer) == {(torch.bfloat16, "rustdev")}
    assert {parameter.dtype for parameter in trainer.model.parameters()} == {torch.float32}
    assert losses[-1] < losses[0] / 1.3


def test_float16_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="fp16 mixed precision requires a device in"):
        train(tmp_path, fp16=True)


def test_checkpoints_go_on(tmp_path: Path) -> None:
    trainer, _ = train(tmp_path)
    trainer.save_model(str(tmp_path / "saved"))
    trainer._save_checkpoint(trainer.model, trial=None)
    trainer.args.max_steps = 9
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-6"))
    assert trainer.state.global_step == 9
    loaded = GPT2LMHeadModel.from_pretrained(tmp_path / "saved", device_map="rustdev:1")
    assert loaded.device == torch.device("rustdev:1")


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        (None, "rustdev:0"),
        (0, "rustdev:0"),
        (1, "rustdev:1"),
        ("rustdev:1", "rustdev:1"),
        ("cpu", "cpu"),
        (torch.device("cpu"), "cpu"),
    ],
    ids=str,
)
def test_pipelines_run_where_they_are_asked_to(asked: object, got: str) -> None:
    writer = pipeline("text-generation", model=make_model(), tokenizer=make_tokenizer(), device=asked)
    assert writer.device == writer.model.device == torch.device(got)
    ((text,),) = writer(["w1 w2"], max_new_tokens=4, do_sample=False, return_full_text=False)
    wanted = make_model().generate(torch.tensor([[1, 2]]), max_new_tokens=4, do_sample=False)
    assert text["generated_text"].split() == [f"w{number}" for number in wanted[0, 2:]]


def test_a_model_that_stays_where_it_is() -> None:
    writer = pipeline("text-generation", model=make_model().to("rustdev:1"), tokenizer=make_tokenizer(), device=-1)
    assert writer.device == torch.device("rustdev:1")


@pytest.mark.parametrize("options", [{}, {"use_cache": False}, {"cache_implementation": "static"}, {"num_beams": 3}], ids=str)
def test_generation_is_the_cpus(options: dict[str, object]) -> None:
    model, words, is_word = make_model().double(), torch.tensor([[0, 0, 7, 9], [5, 6, 7, 8]]), torch.tensor([[0, 0, 1, 1], [1] * 4])
    wanted, found = (
        model.to(device).generate(
            words.to(device), attention_mask=is_word.to(device), max_new_tokens=16, do_sample=False, **options
        )
        for device in ("cpu", "rustdev")
    )
    assert found.device.type == "rustdev"
    assert found.tolist() == wanted.tolist()


def test_generation_draws_from_the_devices_numbers() -> None:
    model = make_model().to("rustdev")
    prompt = torch.tensor([[1, 2]], device="rustdev")
    drawn = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        drawn.append(model.generate(prompt, max_new_tokens=12, do_sample=True).tolist())
    assert drawn[0] == drawn[1] != drawn[2]


def test_loading_by_memory(tmp_path: Path) -> None:
    make_model().save_pretrained(tmp_path)
    model = GPT2LMHeadModel.from_pretrained(tmp_path, device_map="auto")
    assert model.device == torch.device("rustdev:0")
    model = GPT2LMHeadModel.from_pretrained(tmp_path, device_map="auto", max_memory={0: "60KB", 1: "1GB"})
    assert {parameter.device.index for parameter in model.parameters()} == {0, 1}
    prompt = torch.tensor([[1, 2]])
    wanted = make_model()(prompt).logits
    torch.testing.assert_close(model(prompt.to("rustdev:0")).logits.cpu(), wanted, rtol=1e-4, atol=1e-4)


def test_what_works_without_enabling(programs: Programs) -> None:
    code = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments, pipeline
config = GPT2Config(vocab_size=8, n_embd=16, n_layer=1, n_head=1, bos_token_id=None, eos_token_id=None)
model = GPT2LMHeadModel(config).to("rustdev")
print(model.generate(torch.tensor([[1]], device="rustdev"), max_new_tokens=2, pad_token_id=0).device)
model.save_pretrained("saved")
print(GPT2LMHeadModel.from_pretrained("saved", device_map="rustdev:1").device)
print(pipeline("feature-extraction", model=model, tokenizer=object(), device="rustdev:1").device)
print(TrainingArguments("out").device)
"""
    lines = [line for line in programs.script(code).splitlines() if line.endswith((":0", ":1", "cpu"))]
    assert lines == ["rustdev:0", "rustdev:1", "rustdev:1", "cpu"]


def test_the_example_learns(programs: Programs) -> None:
    printed = programs.example("trainer_counting.py", "--bf16")
    assert "rustdev:0 (bf16)" in printed
    assert "seven eight nine ... zero one two three four" in printed
