"""x-transformers: options of its attention and feed-forward layers, and sampling."""

from typing import Any

import pytest
import torch
from programs.beside import agree, moved, trained
from x_transformers import AutoregressiveWrapper, Decoder, Encoder, TransformerWrapper, ViTransformerWrapper, XTransformer

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rotary": {"rotary_pos_emb": True},
    "rotary_xpos": {"rotary_pos_emb": True, "rotary_xpos": True},
    "alibi": {"alibi_pos_bias": True, "alibi_num_heads": 2},
    "relative": {"rel_pos_bias": True},
    "dynamic": {"dynamic_pos_bias": True, "dynamic_pos_bias_log_distance": False},
    "rmsnorm": {"use_rmsnorm": True, "ff_swish": True, "ff_glu": True},
    "qk_norm": {"attn_qk_norm": True, "attn_qk_norm_dim_scale": True},
    "talking_heads": {"attn_pre_talking_heads": True, "attn_post_talking_heads": True},
    "one_kv_head": {"attn_one_kv_head": True},
    "grouped": {"attn_kv_heads": 2},
    "topk": {"attn_sparse_topk": 4},
    "flash": {"attn_flash": True},
    "memory": {"attn_num_mem_kv": 4},
    "macaron": {"macaron": True},
    "sandwich": {"sandwich_coef": 1},
    "gate_values": {"attn_gate_values": True},
    "shift": {"shift_tokens": 1},
    "residual_gate": {"gate_residual": True},
    "softclamp": {"attn_softclamp_logits": True},
    "relu2": {"ff_relu_squared": True, "ff_no_bias": True},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_decoders(name: str) -> None:
    words = torch.randint(0, 64, (2, 16))

    def make() -> torch.nn.Module:
        layers = Decoder(dim=32, depth=2, heads=4, attn_dim_head=16, **OPTIONS[name])
        return AutoregressiveWrapper(TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=layers))

    trained(make, words)


def test_an_encoder_with_a_mask() -> None:
    words, mask = torch.randint(0, 64, (2, 16)), torch.ones(2, 16, dtype=torch.bool)
    mask[1, 9:] = False
    trained(
        lambda: TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=Encoder(dim=32, depth=2, heads=4)), words, mask=mask
    )


def test_both() -> None:
    source, target = torch.randint(0, 64, (2, 16)), torch.randint(1, 64, (2, 12))
    sizes = {"dim": 32, "enc_num_tokens": 64, "enc_depth": 1, "enc_heads": 4, "enc_max_seq_len": 16, "dec_num_tokens": 64}
    sizes |= {"dec_depth": 1, "dec_heads": 4, "dec_max_seq_len": 16}
    trained(lambda: XTransformer(**sizes), source, target, mask=torch.ones_like(source, dtype=torch.bool))


def test_images() -> None:
    layers = {"dim": 32, "depth": 2, "heads": 4}
    make = lambda: ViTransformerWrapper(image_size=32, patch_size=8, num_classes=10, attn_layers=Encoder(**layers))  # noqa: E731
    trained(make, torch.randn(2, 3, 32, 32))


def test_generation() -> None:
    torch.manual_seed(0)
    layers = Decoder(dim=32, depth=2, heads=4, rotary_pos_emb=True)
    model = AutoregressiveWrapper(TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=layers)).eval()
    prompts = torch.randint(0, 64, (2, 5))
    agree(lambda device: model.to(device).generate(moved(prompts, device), 20, temperature=0.0, cache_kv=True))
