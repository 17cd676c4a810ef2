"""transformers: a small model of each of many families, with random weights, in evaluation."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from programs.beside import trained
from torch import Tensor, nn

Config = dict[str, Any]
Inputs = dict[str, Tensor]

WORDS = 99
SIZES: Config = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
TEXT: Config = SIZES | {"vocab_size": WORDS, "max_position_embeddings": 80}
GROUPED: Config = TEXT | {"num_key_value_heads": 2, "pad_token_id": 0}
GPT: Config = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": WORDS}
MAMBA: Config = {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": WORDS, "state_size": 8}
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


def random(**sizes: tuple[int, ...]) -> Callable[[], Inputs]:
    """Return a function that makes tensors of random numbers, by the name of an input and its sizes."""
    return lambda: {name: torch.randn(size) for name, size in sizes.items()}


def series() -> Inputs:
    """Return two time series, with the known features of their future."""
    given = random(past_values=(2, 12), past_time_features=(2, 12, 1), future_values=(2, 4), future_time_features=(2, 4, 1))()
    return given | {"past_observed_mask": torch.ones(2, 12)}


def decisions() -> Inputs:
    """Return states, actions and rewards of six steps."""
    given = random(states=(2, 6, 5), actions=(2, 6, 3), rewards=(2, 6, 1), returns_to_go=(2, 6, 1))()
    return given | {"timesteps": torch.arange(6).expand(2, 6), "attention_mask": torch.ones(2, 6)}


#: The inputs of models, with their configurations by type.
MODELS: tuple[tuple[Callable[[], Inputs], dict[str, Config]], ...] = (
    (sentences, {
        # encoders of text
        "albert": TEXT | {"embedding_size": 32},
        "deberta-v2": TEXT | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
        "distilbert": {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "vocab_size": WORDS},
        "electra": TEXT | {"embedding_size": 32},
        "esm": TEXT | {"pad_token_id": 0, "position_embedding_type": "rotary"},
        "longformer": TEXT | {"attention_window": [8, 8]},
        "mobilebert": TEXT | {"embedding_size": 32, "intra_bottleneck_size": 32, "true_hidden_size": 32},
        "modernbert": TEXT | {"pad_token_id": 0, "local_attention": 8},
        "xlnet": {"d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 128, "vocab_size": WORDS},
        # decoders of text
        "bloom": {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": WORDS},
        "gemma2": HEADS | {"sliding_window": 8},
        "gpt2": GPT,
        "gpt_neo": {
            "hidden_size": 64, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "vocab_size": WORDS,
            "window_size": 8,
        },
        "gptj": GPT | {"rotary_dim": 8},
        "mistral": GROUPED | {"sliding_window": 8},
        "opt": {
            "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 128, "vocab_size": WORDS,
            "word_embed_proj_dim": 64,
        },
        **dict.fromkeys(("bert", "roberta", "falcon", "gpt_neox", "phi"), TEXT),
        **dict.fromkeys(("bitnet", "llama", "olmo2", "phi3", "qwen2"), GROUPED),
        **dict.fromkeys(("gemma", "qwen3"), HEADS),
        # experts
        "deepseek_v3": TEXT | {
            "num_key_value_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
            "moe_intermediate_size": 32, "q_lora_rank": 32, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
            "v_head_dim": 16, "first_k_dense_replace": 1,
        },
        "gpt_oss": HEADS | {"num_local_experts": 4, "sliding_window": 8},
        "llama4_text": HEADS | {"num_local_experts": 2, "intermediate_size_mlp": 128},
        "mixtral": GROUPED | {"num_local_experts": 4},
        "qwen3_moe": HEADS | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64},
        # state space models with attention
        "granitemoehybrid": GROUPED | {
            "layer_types": ["mamba", "attention"], "num_local_experts": 2, "num_experts_per_tok": 1, "mamba_n_heads": 8,
            "mamba_d_head": 16, "mamba_d_state": 8, "shared_intermediate_size": 64,
        },
        "jamba": GROUPED | {
            "num_experts": 2, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1,
            "mamba_d_state": 8, "use_mamba_kernels": False,
        },
    }),
    (words, {
        "fnet": TEXT,
        "mamba": MAMBA,
        "mamba2": MAMBA | {"num_heads": 8, "head_dim": 16, "n_groups": 2, "chunk_size": 8},
    }),
    (lambda: words(64), {"big_bird": TEXT | {"block_size": 4, "num_random_blocks": 1, "max_position_embeddings": 256}}),
    (translations, {
        "bart": BOTH_SIDES,
        "led": BOTH_SIDES | {
            "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64, "attention_window": 8
        },
        "pegasus": BOTH_SIDES,
        "t5": {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": WORDS},
    }),
    # sound
    (random(input_values=(1, 1, 512)), {
        "dac": {
            "encoder_hidden_size": 8, "downsampling_ratios": [2, 4], "decoder_hidden_size": 32, "n_codebooks": 2,
            "codebook_size": 32, "codebook_dim": 4,
        },
    }),
    (random(input_values=(2, 2000)), {"hubert": SPEECH, "wav2vec2": SPEECH}),
    (lambda: {"input_features": torch.randn(2, 16, 100), "decoder_input_ids": torch.randint(3, 90, (2, 10))}, {
        "whisper": BOTH_SIDES | {
            "num_mel_bins": 16, "max_source_positions": 50, "max_target_positions": 64, "pad_token_id": 0,
            "decoder_start_token_id": 1,
        },
    }),
    (images, {
        "convnext": STAGES,
        "convnextv2": STAGES,
        "dpt": IMAGE | {"backbone_out_indices": [0, 1], "neck_hidden_sizes": [16, 32]},
        **dict.fromkeys(("beit", "deit", "dinov2", "vit"), IMAGE),
        "swin": WINDOWS,
        "swinv2": WINDOWS,
    }),
    (larger_images, {
        "mobilenet_v2": {},
        "mobilevit": {"image_size": 64, "hidden_sizes": [32, 48, 64], "neck_hidden_sizes": [8, 16, 16, 32, 32, 32, 64]},
        "poolformer": STAGES,
        "regnet": STAGES | {"embedding_size": 16, "groups_width": 8},
        "resnet": STAGES | {"embedding_size": 16},
        "segformer": STAGES | {"num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 32},
        # detection and segmentation
        "deformable_detr": DETECTION | {
            "use_timm_backbone": False, "num_queries": 5, "backbone_config": transformers.ResNetConfig(**BACKBONE)
        },
        "mask2former": {
            "feature_size": 32, "mask_feature_size": 32, "hidden_dim": 32, "encoder_feedforward_dim": 64, "encoder_layers": 1,
            "decoder_layers": 2, "num_attention_heads": 2, "dim_feedforward": 64, "num_queries": 5,
        },
    }),
    (lambda: larger_images() | {"input_points": torch.rand(2, 1, 2, 2) * 60}, {
        "sam": {
            "vision_config": {
                "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 64, "patch_size": 8,
                "output_channels": 16, "global_attn_indexes": [1], "window_size": 4, "mlp_dim": 64, "num_pos_feats": 8,
            },
            "prompt_encoder_config": {"hidden_size": 16, "image_size": 64, "patch_size": 8},
            "mask_decoder_config": {"hidden_size": 16, "mlp_dim": 32, "num_attention_heads": 2, "iou_head_hidden_dim": 16},
        },
    }),
    # videos, text with images, time series
    (random(pixel_values=(2, 4, 3, 32, 32)), {
        "timesformer": IMAGE | {"num_frames": 4},
        "videomae": IMAGE | {"num_frames": 4, "tubelet_size": 2},
    }),
    (lambda: sentences() | images(), {
        "clip": {"text_config": TEXT | {"eos_token_id": WORDS - 1}, "vision_config": IMAGE, "projection_dim": 32},
        "siglip": {"text_config": TEXT | {"max_position_embeddings": 64}, "vision_config": IMAGE},
    }),
    (decisions, {"decision_transformer": {"hidden_size": 64, "n_layer": 2, "n_head": 4, "state_dim": 5, "act_dim": 3}}),
    (series, {"informer": SERIES, "time_series_transformer": SERIES}),
    (random(past_values=(2, 32, 3)), {
        "patchtst": {
            "num_input_channels": 3, "context_length": 32, "patch_length": 8, "patch_stride": 8, "d_model": 32,
            "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 64,
        },
    }),
    (random(inputs=(2, 20, 64)), {
        "perceiver": {
            "num_latents": 8, "d_latents": 32, "d_model": 64, "num_blocks": 1, "num_self_attends_per_block": 2,
            "num_self_attention_heads": 4, "num_cross_attention_heads": 4,
        },
    }),
)  # fmt: skip
CASES = [
    pytest.param(name, options, inputs, id=name) for inputs, configurations in MODELS for name, options in configurations.items()
]


@pytest.mark.parametrize(("name", "options", "inputs"), CASES)
def test_training(name: str, options: Config, inputs: Callable[[], Inputs]) -> None:
    def make() -> nn.Module:
        return transformers.AutoModel.from_config(transformers.AutoConfig.for_model(name, **options)).eval()

    given: dict[str, Any] = dict(inputs())
    trained(make, **given)
