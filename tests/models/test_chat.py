"""examples/chat.py: a language model with quantised weights writes the same tokens on the device as on the CPU."""

from pathlib import Path

import chat
import pytest
import quantized_linear
import torch
from safetensors.torch import save_file

PROMPT = list(b"a prompt of some bytes")
KINDS = pytest.mark.parametrize("quantize", chat.QUANTISATIONS)


def model(device: str, quantize: str, dtype: torch.dtype = torch.float32, weights: chat.Weights | None = None) -> chat.Llama:
    return chat.Llama(chat.SIZES["tiny"], chat.Maker(weights or chat.Weights(), device, dtype, quantize))


def logits(network: chat.Llama, tokens: list[int]) -> torch.Tensor:
    """Return the logits behind some tokens that are read at once."""
    device = network.frequencies.device
    given, positions = torch.tensor([tokens], device=device), torch.arange(len(tokens), device=device)
    with torch.no_grad():
        return network(given, positions, network.cache(len(tokens))).float().cpu()


@KINDS
def test_the_same_tokens_are_written(quantize: str) -> None:
    written = [list(chat.write(model(device, quantize), PROMPT, 20)) for device in ("cpu", "rustdev")]
    assert written[0] == written[1]
    assert len(set(written[0])) > 5


@KINDS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_logits_in_16_bits(quantize: str, dtype: torch.dtype) -> None:
    wanted, found = (logits(model(device, quantize, dtype), PROMPT) for device in ("cpu", "rustdev"))
    torch.testing.assert_close(found, wanted, rtol=0, atol=0.05)
    assert wanted.std() > 0.5


@KINDS
def test_tokens_one_by_one_are_tokens_at_once(quantize: str) -> None:
    network = model("rustdev", quantize)
    written = list(chat.write(network, PROMPT, 6))
    for count, token in enumerate(written):
        assert int(logits(network, PROMPT + written[:count]).argmax()) == token


@pytest.mark.parametrize("device", ["cpu", "rustdev"])
@pytest.mark.parametrize(("quantize", "least", "most"), [("int8", 1e-3, 0.02), ("int4", 0.02, 0.2)])
def test_quantised_layers_are_near_what_they_quantise(device: str, quantize: str, least: float, most: float) -> None:
    weight, x = torch.randn(48, 96, device=device), torch.randn(2, 5, 96, device=device)
    layer = quantized_linear.Int8Linear(weight) if quantize == "int8" else quantized_linear.Int4Linear(weight)
    torch.testing.assert_close(layer(x), x @ layer.dequantised().T, rtol=1e-4, atol=1e-4)
    assert least < (layer(x) - x @ weight.T).norm() / (x @ weight.T).norm() < most


@pytest.mark.parametrize(("rows", "columns", "group"), [(40, 64, 32), (32, 80, 32), (32, 64, 48)])
def test_weights_that_no_kernel_takes_are_refused(rows: int, columns: int, group: int) -> None:
    with pytest.raises(ValueError, match=f"{rows} x {columns} weights in groups of {group}"):
        quantized_linear.Int4Linear(torch.ones(rows, columns), group)


@pytest.mark.parametrize(("quantize", "bytes_a_weight"), [("int8", 1), ("int4", 0.75)])
def test_memory_stays_near_the_quantised_size(quantize: str, bytes_a_weight: float) -> None:
    shape = chat.Shape(layers=8, width=256, heads=4, key_heads=2, hidden=768, vocabulary=256)
    torch.rustdev.empty_cache()
    torch.rustdev.reset_peak_memory_stats()
    before = torch.rustdev.memory_allocated()
    network = chat.Llama(shape, chat.Maker(chat.Weights(), "rustdev", torch.bfloat16, quantize))
    weights = shape.layers * shape.width * (2.5 * shape.width + 3 * shape.hidden)
    kept = torch.rustdev.memory_allocated() - before
    assert bytes_a_weight * 0.8 * weights < kept < bytes_a_weight * 1.2 * weights
    # A matrix is there in full while it is quantised.
    assert torch.rustdev.max_memory_allocated() - before < kept + 24 * shape.width * shape.hidden
    assert network.shape == shape


def names_of_hugging_face(weights: chat.Weights) -> dict[str, torch.Tensor]:
    """Return all weights of the tiny model, times two."""
    asked: dict[str, torch.Tensor] = {}

    class Recorder(chat.Weights):
        def __call__(self, name: str, *sizes: int) -> torch.Tensor:
            asked[name] = weights(name, *sizes) * 2
            return asked[name]

    model("cpu", "none", weights=Recorder())
    return asked


def test_weights_of_a_file(tmp_path: Path) -> None:
    tensors = names_of_hugging_face(chat.Weights())
    assert {"model.embed_tokens.weight", "lm_head.weight", "model.layers.1.mlp.down_proj.weight"} < tensors.keys()
    save_file(tensors, tmp_path / "model.safetensors")
    found = model("rustdev", "none", weights=chat.Weights(tmp_path / "model.safetensors"))
    assert torch.equal(found.layers[1].mlp.down_proj.weight.cpu(), tensors["model.layers.1.mlp.down_proj.weight"])
    assert not torch.allclose(logits(found, PROMPT), logits(model("cpu", "none"), PROMPT), atol=0.1)


def test_a_head_that_is_the_embedding(tmp_path: Path) -> None:
    tensors = names_of_hugging_face(chat.Weights())
    del tensors["lm_head.weight"]
    save_file(tensors, tmp_path / "model.safetensors")
    found = model("rustdev", "none", weights=chat.Weights(tmp_path / "model.safetensors"))
    assert torch.equal(found.lm_head.weight, found.embed_tokens)


@pytest.mark.parametrize(
    ("change", "message"), [("absent", "the file has no model.norm.weight"), ("other", r"model.norm.weight is \[3\]")]
)
def test_files_of_other_models_are_refused(change: str, message: str, tmp_path: Path) -> None:
    tensors = names_of_hugging_face(chat.Weights())
    tensors["model.norm.weight"] = torch.ones(3)
    if change == "absent":
        del tensors["model.norm.weight"]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=message):
        model("cpu", "none", weights=chat.Weights(tmp_path / "model.safetensors"))


def test_tokens_that_are_no_bytes() -> None:
    assert chat.Bytes().decode([*b"a\xc3\xa9", 300, 0xFF]) == "aé\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
    assert chat.Bytes().encode("é") == [0xC3, 0xA9]
