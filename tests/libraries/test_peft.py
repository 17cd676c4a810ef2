"""Hugging Face's peft: adapters of a small model by the Trainer, saved, loaded, merged and switched. All weights are random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import peft
import pytest
import torch
from conftest import forget_devices, losses_of
from peft import PeftModel, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

if TYPE_CHECKING:
    from pathlib import Path

    from peft import PeftConfig

WORDS = 12
LINEAR = ["q_proj", "v_proj", "down_proj"]

CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "LoRA": ("LoraConfig", {"r": 4, "target_modules": LINEAR}),
    "rsLoRA": ("LoraConfig", {"r": 4, "target_modules": LINEAR, "use_rslora": True}),
    "DoRA": ("LoraConfig", {"r": 4, "target_modules": LINEAR, "use_dora": True}),
    "PiSSA": ("LoraConfig", {"r": 4, "target_modules": LINEAR, "init_lora_weights": "pissa"}),
    "AdaLoRA": ("AdaLoraConfig", {"target_modules": LINEAR, "init_r": 6, "target_r": 4, "total_step": 6}),
    "LoHa": ("LoHaConfig", {"r": 4, "target_modules": LINEAR}),
    "LoKr": ("LoKrConfig", {"r": 4, "target_modules": LINEAR}),
    "OFT": ("OFTConfig", {"oft_block_size": 8, "target_modules": LINEAR}),
    "VeRA": ("VeraConfig", {"r": 4, "target_modules": ["q_proj", "v_proj"]}),
    "IA3": ("IA3Config", {"target_modules": LINEAR, "feedforward_modules": ["down_proj"]}),
    "prompt": ("PromptTuningConfig", {"num_virtual_tokens": 3}),
    "prefix": ("PrefixTuningConfig", {"num_virtual_tokens": 3}),
}


def base() -> LlamaForCausalLM:
    """Return the model that adapters are for."""
    torch.manual_seed(3)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=WORDS, pad_token_id=0, **sizes))


def configuration(name: str) -> PeftConfig:
    kind, options = CONFIGURATIONS[name]
    return getattr(peft, kind)(task_type="CAUSAL_LM", **options)


def with_adapter(name: str) -> PeftModel:
    """Return the model with an adapter that has not learned."""
    model = base()
    torch.manual_seed(4)
    return get_peft_model(model, configuration(name))


def train(name: str, directory: Path, **options: Any) -> tuple[PeftModel, list[float]]:
    """Train an adapter for a few steps, and return the model and the losses."""
    model = with_adapter(name)
    arguments = TrainingArguments(
        str(directory), learning_rate=1e-2, logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True, seed=3,
        **{"bf16": False, "max_steps": 5, "per_device_train_batch_size": 8, **options},
    )  # fmt: skip
    rows = [{"input_ids": torch.arange(first, first + 8) % WORDS} for first in range(64)]
    trainer = Trainer(model, arguments, train_dataset=[row | {"labels": row["input_ids"]} for row in rows])
    trainer.train()
    return model, losses_of(trainer)


def logits(model: torch.nn.Module) -> torch.Tensor:
    return model(input_ids=torch.arange(6, device=next(model.parameters()).device)[None]).logits.detach().cpu()


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_training_is_the_cpus(name: str, tmp_path: Path) -> None:
    model, losses = train(name, tmp_path)
    assert {parameter.device.type for parameter in model.parameters()} == {"rustdev"}
    forget_devices()
    on_cpu, wanted = train(name, tmp_path, use_cpu=True)
    assert losses == pytest.approx(wanted, rel=1e-3)
    theirs, started = on_cpu.state_dict(), with_adapter(name).state_dict()
    learned = set()
    for key, weight in model.named_parameters():
        if weight.requires_grad:
            learned.add(not torch.equal(weight.cpu(), started[key]))
        else:
            torch.testing.assert_close(weight.cpu(), theirs[key], rtol=1e-3, atol=1e-4)
    assert True in learned


def test_bfloat16(tmp_path: Path) -> None:
    model, losses = train("LoRA", tmp_path, bf16=True)
    assert {parameter.dtype for parameter in model.parameters() if parameter.requires_grad} == {torch.float32}
    assert losses[-1] < losses[0]


def test_an_adapter_is_saved_loaded_and_merged(tmp_path: Path) -> None:
    model, _ = train("LoRA", tmp_path)
    model.eval()
    wanted = logits(model)
    model.save_pretrained(tmp_path / "adapter")
    loaded = PeftModel.from_pretrained(base().to("rustdev:1"), tmp_path / "adapter")
    assert {parameter.device for parameter in loaded.parameters()} == {torch.device("rustdev:1")}
    torch.testing.assert_close(logits(loaded.eval()), wanted)
    merged = loaded.merge_and_unload()
    torch.testing.assert_close(logits(merged), wanted, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(logits(base()), wanted, atol=1e-3)


def test_adapters_are_switched(tmp_path: Path) -> None:
    model, _ = train("LoRA", tmp_path)
    model.eval()
    wanted = logits(model)
    model.add_adapter("second", configuration("LoRA"))
    model.set_adapter("second")
    plain = logits(base().eval())
    torch.testing.assert_close(logits(model), plain, rtol=1e-4, atol=1e-4)
    model.set_adapter("default")
    torch.testing.assert_close(logits(model), wanted)
    with model.disable_adapter():
        torch.testing.assert_close(logits(model), plain, rtol=1e-4, atol=1e-4)
