"""Files of llama.cpp with the random weights of examples/chat.py, written by the package `gguf`."""

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import chat
import gguf

#: What stands in a file for weights of the other contenders.
TYPES = {"bfloat16": "F16", "int8": "Q8_0", "int4": "Q4_0"}
#: Names of the matrices of a layer in llama.cpp, and in Llama.
MATRICES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}


def sizes(shape: chat.Shape) -> dict[str, tuple[int, int]]:
    """Return the sizes of the matrices of a layer, by their names in llama.cpp."""
    keys = shape.key_heads * shape.head
    rows = {"attn_k": keys, "attn_v": keys, "ffn_gate": shape.hidden, "ffn_up": shape.hidden}
    return {name: (rows.get(name, shape.width), shape.hidden if name == "ffn_down" else shape.width) for name in MATRICES}


def interleaved(weight: npt.NDArray[np.float32], heads: int) -> npt.NDArray[np.float32]:
    """Return the rows of queries or keys in llama.cpp's order: it rotates neighbours, and Llama the halves of a head."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def write(file: Path, size: str, kind: str, length: int) -> None:
    """Write a model.

    Args:
        file: File to write.
        size: One of `chat.SIZES`.
        kind: One of `TYPES`, of all matrices. Norms are float32.
        length: Greatest number of tokens.
    """
    shape, weights = chat.SIZES[size], chat.Weights()
    heads = {"attn_q": shape.heads, "attn_k": shape.key_heads}
    dtype = gguf.GGMLQuantizationType[TYPES[kind]]
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_file_type(gguf.LlamaFileType[f"MOSTLY_{TYPES[kind]}"])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_context_length(length)
    writer.add_block_count(shape.layers)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.key_heads)
    writer.add_rope_dimension_count(shape.head)
    writer.add_rope_freq_base(chat.THETA)
    writer.add_layer_norm_rms_eps(chat.EPSILON)
    writer.add_vocab_size(shape.vocabulary)
    # llama.cpp takes a vocabulary although the names of tokens are not used.
    writer.add_tokenizer_model("llama")
    writer.add_token_list([f"<{token}>" for token in range(shape.vocabulary)])
    writer.add_token_scores([0.0] * shape.vocabulary)
    writer.add_token_types([gguf.TokenType.NORMAL] * shape.vocabulary)

    def add(name: str, original: str, *sizes: int) -> None:
        weight = weights(f"{original}.weight", *sizes).numpy()
        if name.split(".")[-1] in heads:
            weight = interleaved(weight, heads[name.split(".")[-1]])
        used = dtype if len(sizes) == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(f"{name}.weight", gguf.quantize(weight, used), raw_dtype=used)

    add("token_embd", "model.embed_tokens", shape.vocabulary, shape.width)
    add("output", "lm_head", shape.vocabulary, shape.width)
    add("output_norm", "model.norm", shape.width)
    for layer in range(shape.layers):
        for name, original in NORMS.items():
            add(f"blk.{layer}.{name}", f"model.layers.{layer}.{original}", shape.width)
        for name, (rows, columns) in sizes(shape).items():
            add(f"blk.{layer}.{name}", f"model.layers.{layer}.{MATRICES[name]}", rows, columns)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
