"""Models of Hugging Face's transformers: small configurations, and inputs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import transformers
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn

Config = dict[str, Any]
Inputs = dict[str, Tensor]

WORDS = 99
SIZES: Config = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
TEXT: Config = SIZES | {"vocab_size": WORDS, "max_position_embeddings": 80}
GROUPED: Config = TEXT | {"num_key_value_heads": 2, "pad_token_id": 0}
HEADS: Config = GROUPED | {"head_dim": 16}
IMAGE: Config = SIZES | {"image_size": 32, "patch_size": 8}
STAGES: Config = {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]}
BACKBONE: Config = STAGES | {"embedding_size": 16, "out_features": ["stage2", "stage3", "stage4"]}
WINDOWS: Config = {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 2], "num_heads": [2, 4], "window_size": 4}
SPEECH: Config = SIZES | {
    "conv_dim": (32, 32, 32), "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 3), "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4, "mask_time_prob": 0.0,
}  # fmt: skip
BOTH_SIDES: Config = {
    "vocab_size": WORDS, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "max_position_embeddings": 64,
}  # fmt: skip
SERIES: Config = {
    "prediction_length": 4, "context_length": 10, "lags_sequence": [1, 2], "d_model": 32, "encoder_layers": 1, "decoder_layers": 1,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "num_time_features": 1,
}  # fmt: skip
DETECTION: Config = {
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
}  # fmt: skip


def words(length: int = 24) -> Inputs:
    """Return two sequences of token ids."""
    return {"input_ids": torch.randint(3, 90, (2, length))}


def sentences() -> Inputs:
    """Return two sequences of token ids of different lengths, with an attention mask."""
    is_word = torch.ones(2, 24, dtype=torch.long)
    is_word[1, 16:] = 0
    return words() | {"attention_mask": is_word}


def translations() -> Inputs:
    """Return inputs for an encoder and a decoder."""
    return sentences() | {"decoder_input_ids": torch.randint(3, 90, (2, 10))}


def images(size: int = 32) -> Inputs:
    """Return two images."""
    return {"pixel_values": torch.randn(2, 3, size, size)}


def larger_images() -> Inputs:
    """Return two images of 64 x 64 pixels, for models that downsample often."""
    return images(64)


def films() -> Inputs:
    """Return two videos of four frames."""
    return {"pixel_values": torch.randn(2, 4, 3, 32, 32)}


def sounds() -> Inputs:
    """Return two waveforms of 2,000 samples."""
    return {"input_values": torch.randn(2, 2000)}


def series() -> Inputs:
    """Return two time series, with the known features of their future."""
    return {
        "past_values": torch.randn(2, 12),
        "past_time_features": torch.randn(2, 12, 1),
        "past_observed_mask": torch.ones(2, 12),
        "future_values": torch.randn(2, 4),
        "future_time_features": torch.randn(2, 4, 1),
    }


def decisions() -> Inputs:
    """Return states, actions and rewards of six steps."""
    return {
        "states": torch.randn(2, 6, 5),
        "actions": torch.randn(2, 6, 3),
        "rewards": torch.randn(2, 6, 1),
        "returns_to_go": torch.randn(2, 6, 1),
        "timesteps": torch.arange(6).expand(2, 6),
        "attention_mask": torch.ones(2, 6),
    }


#: (configuration, inputs) by model type.
MODELS: dict[str, tuple[Config, Callable[[], Inputs]]] = {
    # encoders of text
    "albert": (TEXT | {"embedding_size": 32}, sentences),
    "bert": (TEXT, sentences),
    "big_bird": (TEXT | {"block_size": 4, "num_random_blocks": 1, "max_position_embeddings": 256}, lambda: words(64)),
    "deberta-v2": (TEXT | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, sentences),
    "distilbert": ({"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "vocab_size": WORDS}, sentences),
    "electra": (TEXT | {"embedding_size": 32}, sentences),
    "esm": (TEXT | {"pad_token_id": 0, "position_embedding_type": "rotary"}, sentences),
    "fnet": (TEXT, words),
    "longformer": (TEXT | {"attention_window": [8, 8]}, sentences),
    "mobilebert": (TEXT | {"embedding_size": 32, "intra_bottleneck_size": 32, "true_hidden_size": 32}, sentences),
    "modernbert": (TEXT | {"pad_token_id": 0, "local_attention": 8}, sentences),
    "roberta": (TEXT, sentences),
    "xlnet": ({"d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 128, "vocab_size": WORDS}, sentences),
    # decoders of text
    "bitnet": (GROUPED, sentences),
    "bloom": ({"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": WORDS}, sentences),
    "falcon": (TEXT, sentences),
    "gemma": (HEADS, sentences),
    "gemma2": (HEADS | {"sliding_window": 8}, sentences),
    "gpt2": ({"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": WORDS}, sentences),
    "gpt_neo": (
        {
            "hidden_size": 64, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "vocab_size": WORDS,
            "window_size": 8,
        },
        sentences,
    ),
    "gpt_neox": (TEXT, sentences),
    "gptj": ({"n_embd": 64, "n_layer": 2, "n_head": 4, "rotary_dim": 8, "vocab_size": WORDS}, sentences),
    "llama": (GROUPED, sentences),
    "mistral": (GROUPED | {"sliding_window": 8}, sentences),
    "olmo2": (GROUPED, sentences),
    "opt": (
        {
            "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 128, "vocab_size": WORDS,
            "word_embed_proj_dim": 64,
        },
        sentences,
    ),
    "phi": (TEXT, sentences),
    "phi3": (GROUPED, sentences),
    "qwen2": (GROUPED, sentences),
    "qwen3": (HEADS, sentences),
    # experts
    "deepseek_v3": (
        TEXT | {
            "num_key_value_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
            "moe_intermediate_size": 32, "q_lora_rank": 32, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
            "v_head_dim": 16, "first_k_dense_replace": 1,
        },
        sentences,
    ),
    "gpt_oss": (HEADS | {"num_local_experts": 4, "sliding_window": 8}, sentences),
    "llama4_text": (HEADS | {"num_local_experts": 2, "intermediate_size_mlp": 128}, sentences),
    "mixtral": (GROUPED | {"num_local_experts": 4}, sentences),
    "qwen3_moe": (HEADS | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}, sentences),
    # state space models, with and without attention
    "granitemoehybrid": (
        GROUPED | {
            "layer_types": ["mamba", "attention"], "num_local_experts": 2, "num_experts_per_tok": 1, "mamba_n_heads": 8,
            "mamba_d_head": 16, "mamba_d_state": 8, "shared_intermediate_size": 64,
        },
        sentences,
    ),
    "jamba": (
        GROUPED | {
            "num_experts": 2, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1,
            "mamba_d_state": 8, "use_mamba_kernels": False,
        },
        sentences,
    ),
    "mamba": ({"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": WORDS, "state_size": 8}, words),
    "mamba2": (
        {
            "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": WORDS, "state_size": 8, "num_heads": 8, "head_dim": 16,
            "n_groups": 2, "chunk_size": 8,
        },
        words,
    ),
    # text to text
    "bart": (BOTH_SIDES, translations),
    "led": (
        BOTH_SIDES | {"max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64, "attention_window": 8},
        translations,
    ),
    "pegasus": (BOTH_SIDES, translations),
    "t5": ({"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": WORDS}, translations),
    # sound
    "dac": (
        {
            "encoder_hidden_size": 8, "downsampling_ratios": [2, 4], "decoder_hidden_size": 32, "n_codebooks": 2,
            "codebook_size": 32, "codebook_dim": 4,
        },
        lambda: {"input_values": torch.randn(1, 1, 512)},
    ),
    "hubert": (SPEECH, sounds),
    "wav2vec2": (SPEECH, sounds),
    "whisper": (
        BOTH_SIDES | {
            "num_mel_bins": 16, "max_source_positions": 50, "max_target_positions": 64, "pad_token_id": 0,
            "decoder_start_token_id": 1,
        },
        lambda: {"input_features": torch.randn(2, 16, 100), "decoder_input_ids": torch.randint(3, 90, (2, 10))},
    ),
    # images
    "beit": (IMAGE, images),
    "convnext": (STAGES, images),
    "convnextv2": (STAGES, images),
    "deit": (IMAGE, images),
    "dinov2": (IMAGE, images),
    "dpt": (IMAGE | {"backbone_out_indices": [0, 1], "neck_hidden_sizes": [16, 32]}, images),
    "mobilenet_v2": ({}, larger_images),
    "mobilevit": (
        {"image_size": 64, "hidden_sizes": [32, 48, 64], "neck_hidden_sizes": [8, 16, 16, 32, 32, 32, 64]},
        larger_images,
    ),
    "poolformer": (STAGES, larger_images),
    "regnet": (STAGES | {"embedding_size": 16, "groups_width": 8}, larger_images),
    "resnet": (STAGES | {"embedding_size": 16}, larger_images),
    "sam": (
        {
            "vision_config": {
                "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 64, "patch_size": 8,
                "output_channels": 16, "global_attn_indexes": [1], "window_size": 4, "mlp_dim": 64, "num_pos_feats": 8,
            },
            "prompt_encoder_config": {"hidden_size": 16, "image_size": 64, "patch_size": 8},
            "mask_decoder_config": {"hidden_size": 16, "mlp_dim": 32, "num_attention_heads": 2, "iou_head_hidden_dim": 16},
        },
        lambda: larger_images() | {"input_points": torch.rand(2, 1, 2, 2) * 60},
    ),
    "segformer": (STAGES | {"num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 32}, larger_images),
    "swin": (WINDOWS, images),
    "swinv2": (WINDOWS, images),
    "vit": (IMAGE, images),
    # detection and segmentation
    "deformable_detr": (
        DETECTION | {"use_timm_backbone": False, "num_queries": 5, "backbone_config": transformers.ResNetConfig(**BACKBONE)},
        larger_images,
    ),
    "mask2former": (
        {
            "feature_size": 32, "mask_feature_size": 32, "hidden_dim": 32, "encoder_feedforward_dim": 64, "encoder_layers": 1,
            "decoder_layers": 2, "num_attention_heads": 2, "dim_feedforward": 64, "num_queries": 5,
        },
        larger_images,
    ),
    # videos, text with images, time series
    "clip": (
        {"text_config": TEXT | {"eos_token_id": WORDS - 1}, "vision_config": IMAGE, "projection_dim": 32},
        lambda: sentences() | images(),
    ),
    "decision_transformer": ({"hidden_size": 64, "n_layer": 2, "n_head": 4, "state_dim": 5, "act_dim": 3}, decisions),
    "informer": (SERIES, series),
    "patchtst": (
        {
            "num_input_channels": 3, "context_length": 32, "patch_length": 8, "patch_stride": 8, "d_model": 32,
            "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64,
        },
        lambda: {"past_values": torch.randn(2, 32, 3)},
    ),
    "perceiver": (
        {
            "num_latents": 8, "d_latents": 32, "d_model": 64, "num_blocks": 1, "num_self_attends_per_block": 2,
            "num_self_attention_heads": 4, "num_cross_attention_heads": 4,
        },
        lambda: {"inputs": torch.randn(2, 20, 64)},
    ),
    "siglip": ({"text_config": TEXT | {"max_position_embeddings": 64}, "vision_config": IMAGE}, lambda: sentences() | images()),
    "time_series_transformer": (SERIES, series),
    "timesformer": (IMAGE | {"num_frames": 4}, films),
    "videomae": (IMAGE | {"num_frames": 4, "tubelet_size": 2}, films),
}  # fmt: skip


def models() -> Iterator[tuple[str, Callable[[], tuple[nn.Module, Inputs]]]]:
    """Yield the name of each model and a function that makes the model, in eval mode, and its inputs.

    Few of these models can be trained without their own training loops.
    """

    def make(name: str) -> tuple[nn.Module, Inputs]:
        options, inputs = MODELS[name]
        config = transformers.AutoConfig.for_model(name, **options)
        return transformers.AutoModel.from_config(config).eval(), inputs()

    for name in MODELS:
        yield name, partial(make, name)
