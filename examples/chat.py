"""Writes text by a language model of the shape of Llama, with weights of 32, 16, 8 or 4 bits.

    python examples/chat.py [--device rustdev|cpu] [--size tiny|124m|1b] [--dtype bfloat16|float32|float16]
                            [--quantize none|int8|int4] [--group N] [--weights FILE.safetensors] [--tokenizer FILE.json]
                            [--prompt TEXT] [--tokens N]

The weights are random, or those of a file with the names of Hugging Face's Llama and the shape of `--size`: `1b` is TinyLlama's.
They are made or read one after the other and quantised at once, so that the memory stays near that of the quantised model. Without
a tokenizer a token is a byte of UTF-8. A tokenizer's file takes the package `tokenizers`. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import quantized_linear
import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Iterator

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float16": torch.float16}
QUANTISATIONS = ("none", "int8", "int4")
THETA, EPSILON = 10000.0, 1e-5

Pair = tuple[Tensor, Tensor]
Cache = list[Pair]


class Shape(NamedTuple):
    """The sizes of a model. ``key_heads`` counts the heads of keys and of values, which ``heads / key_heads`` queries share."""

    layers: int
    width: int
    heads: int
    key_heads: int
    hidden: int
    vocabulary: int

    @property
    def head(self) -> int:
        """Size of a head."""
        return self.width // self.heads


SIZES = {
    "tiny": Shape(layers=2, width=64, heads=4, key_heads=2, hidden=160, vocabulary=256),
    "124m": Shape(layers=12, width=768, heads=12, key_heads=4, hidden=2048, vocabulary=32000),
    "1b": Shape(layers=22, width=2048, heads=32, key_heads=4, hidden=5632, vocabulary=32000),
}


class Weights:
    """Weights by name, from a file or random. Random ones depend on the name alone.

    Args:
        file: A file of safetensors, or None.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.file: Any = None
        if file:
            import safetensors

            open_file: Any = safetensors.safe_open
            self.file = open_file(file, framework="pt")
            self.names = set(self.file.keys())

    def __call__(self, name: str, *sizes: int) -> Tensor:
        """Return weights on the CPU.

        Args:
            name: Name of the weights in Hugging Face's Llama.
            sizes: Their sizes. Without a file the vector of a norm is one, and rows of matrices have a norm of about 1; of those
                that add to the residual stream, 1/32: each adds little, so that the layers above do not enlarge its rounding.

        Raises:
            ValueError: If the file has no weights of this name, or of other sizes.
        """
        if self.file is None:
            if len(sizes) == 1:
                return torch.ones(sizes)
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            norm = 1 / 32 if "o_proj" in name or "down_proj" in name else 1
            return torch.randn(sizes, generator=generator).mul_(norm / sizes[1] ** 0.5)
        if name == "lm_head.weight" and name not in self.names:
            name = "model.embed_tokens.weight"
        if name not in self.names:
            raise ValueError(f"the file has no {name}")
        found: Tensor = self.file.get_tensor(name)
        if found.shape != sizes:
            raise ValueError(f"{name} is {list(found.shape)} in the file, and {list(sizes)} in a model of this size")
        return found


class Maker:
    """Makes the layers of a model one after the other, each on its device in its dtype, and quantised.

    Args:
        weights: Where they come from.
        device: Device of the layers.
        dtype: Dtype of what is not quantised, and of inputs.
        quantize: "none", "int8" or "int4": what happens to the matrices of products.
        group: Group of weights with one scale, for "int4".
    """

    def __init__(self, weights: Weights, device: str, dtype: torch.dtype, quantize: str = "none", group: int = 32) -> None:
        self.weights, self.device, self.dtype = weights, device, dtype
        self.quantize, self.group = quantize, group

    def parameter(self, name: str, *sizes: int) -> nn.Parameter:
        """Return weights that are not trained."""
        return nn.Parameter(self.weights(f"{name}.weight", *sizes).to(self.dtype).to(self.device), requires_grad=False)

    def linear(self, name: str, rows: int, columns: int) -> nn.Module:
        """Return a linear layer: [*, columns] to [*, rows]."""
        weight = self.parameter(name, rows, columns)
        if self.quantize == "int8":
            return quantized_linear.Int8Linear(weight)
        if self.quantize == "int4":
            return quantized_linear.Int4Linear(weight, self.group)
        layer = nn.Linear(columns, rows, bias=False, device="meta")
        layer.weight = weight
        return layer

    def norm(self, name: str, width: int) -> nn.RMSNorm:
        """Return a norm of the last dimension by its root mean square."""
        layer = nn.RMSNorm(width, EPSILON, device="meta")
        layer.weight = self.parameter(name, width)
        return layer


def rotate(x: Tensor, turns: Pair) -> Tensor:
    """Rotate heads [N, heads, T, head] by angles whose cosines and sines are [T, head], as Llama marks positions."""
    cosines, sines = turns
    first, second = x.chunk(2, dim=-1)
    return x * cosines + torch.cat((-second, first), dim=-1) * sines


class Attention(nn.Module):
    """Causal attention over a cache, in which some queries share keys and values: [1, T, width] to [1, T, width].

    Args:
        shape: Sizes of the model.
        make: Maker of layers.
        name: Name of the weights.
    """

    def __init__(self, shape: Shape, make: Maker, name: str) -> None:
        super().__init__()
        self.head, keys = shape.head, shape.key_heads * shape.head
        self.q_proj = make.linear(f"{name}.q_proj", shape.width, shape.width)
        self.k_proj = make.linear(f"{name}.k_proj", keys, shape.width)
        self.v_proj = make.linear(f"{name}.v_proj", keys, shape.width)
        self.o_proj = make.linear(f"{name}.o_proj", shape.width, shape.width)

    def forward(self, x: Tensor, positions: Tensor, turns: Pair, mask: Tensor, cache: Pair) -> Tensor:
        """Write keys and values of the positions [T] to the cache, and attend to what the mask [T, length] allows."""
        query, key, value = (
            project(x).unflatten(-1, (-1, self.head)).transpose(1, 2) for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        keys, values = cache
        keys.index_copy_(2, positions, rotate(key, turns))
        values.index_copy_(2, positions, value)
        found = functional.scaled_dot_product_attention(rotate(query, turns), keys, values, attn_mask=mask, enable_gqa=True)
        attended: Tensor = self.o_proj(found.transpose(1, 2).flatten(2))
        return attended


class FeedForward(nn.Module):
    """The gated network of a block (SwiGLU): [*, width] to [*, width].

    Args:
        shape: Sizes of the model.
        make: Maker of layers.
        name: Name of the weights.
    """

    def __init__(self, shape: Shape, make: Maker, name: str) -> None:
        super().__init__()
        self.gate_proj = make.linear(f"{name}.gate_proj", shape.hidden, shape.width)
        self.up_proj = make.linear(f"{name}.up_proj", shape.hidden, shape.width)
        self.down_proj = make.linear(f"{name}.down_proj", shape.width, shape.hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Return the network's output."""
        found: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return found


class Block(nn.Module):
    """A layer of the model: attention and a gated network, each behind a norm and with a residual connection.

    Args:
        shape: Sizes of the model.
        make: Maker of layers.
        name: Name of the weights.
    """

    def __init__(self, shape: Shape, make: Maker, name: str) -> None:
        super().__init__()
        self.input_layernorm = make.norm(f"{name}.input_layernorm", shape.width)
        self.self_attn = Attention(shape, make, f"{name}.self_attn")
        self.post_attention_layernorm = make.norm(f"{name}.post_attention_layernorm", shape.width)
        self.mlp = FeedForward(shape, make, f"{name}.mlp")

    def forward(self, x: Tensor, positions: Tensor, turns: Pair, mask: Tensor, cache: Pair) -> Tensor:
        """Return the layer's output, [1, T, width]."""
        x = x + self.self_attn(self.input_layernorm(x), positions, turns, mask, cache)
        added: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return added


class Llama(nn.Module):
    """Tokens to the logits of the token that follows the last of them.

    Args:
        shape: Sizes of the model.
        make: Maker of layers.
    """

    def __init__(self, shape: Shape, make: Maker) -> None:
        super().__init__()
        self.shape, self.dtype = shape, make.dtype
        self.embed_tokens = make.parameter("model.embed_tokens", shape.vocabulary, shape.width)
        # The largest matrix is quantised while there are no others.
        self.lm_head = make.linear("lm_head", shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Block(shape, make, f"model.layers.{layer}") for layer in range(shape.layers))
        self.norm = make.norm("model.norm", shape.width)
        frequencies = THETA ** (-torch.arange(0, shape.head, 2) / shape.head)
        self.frequencies = nn.Buffer(frequencies.repeat(2).to(make.device), persistent=False)

    def cache(self, length: int) -> Cache:
        """Return an empty cache for ``length`` tokens: keys and values of each layer, [1, key heads, length, head]."""
        sizes = 1, self.shape.key_heads, length, self.shape.head
        like = torch.empty(0, dtype=self.dtype, device=self.frequencies.device)
        return [(like.new_zeros(sizes), like.new_zeros(sizes)) for _ in self.layers]

    def forward(self, tokens: Tensor, positions: Tensor, cache: Cache) -> Tensor:
        """Return logits [1, vocabulary] and write to the cache.

        Args:
            tokens: [1, T], int64.
            positions: [T], int64: where in the text the tokens are. The cache has all earlier ones.
            cache: Keys and values of each layer, of :meth:`cache`.
        """
        angles = positions[:, None] * self.frequencies
        turns = angles.cos().to(self.dtype), angles.sin().to(self.dtype)
        mask = torch.arange(cache[0][0].shape[2], device=positions.device) <= positions[:, None]
        x = functional.embedding(tokens, self.embed_tokens)
        for layer, kept in zip(self.layers, cache, strict=True):
            x = layer(x, positions, turns, mask, kept)
        logits: Tensor = self.lm_head(self.norm(x[:, -1]))
        return logits


@torch.no_grad()
def write(model: Llama, prompt: list[int], count: int) -> Iterator[int]:
    """Yield the tokens that follow a prompt, each of which is the likeliest."""
    device, cache = model.frequencies.device, model.cache(len(prompt) + count)
    tokens, positions = torch.tensor([prompt], device=device), torch.arange(len(prompt), device=device)
    for _ in range(count):
        token = model(tokens, positions, cache).argmax(dim=-1)
        yield int(token)
        tokens, positions = token[None], positions[-1:] + 1


class Bytes:
    """A tokenizer whose tokens are the bytes of UTF-8."""

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        return list(text.encode())

    def decode(self, tokens: list[int]) -> str:
        """Return the text of tokens; what is no byte, or no UTF-8, is a mark of replacement."""
        return b"".join(bytes([token]) if token < 256 else "\N{REPLACEMENT CHARACTER}".encode() for token in tokens).decode(
            errors="replace"
        )


class FileTokenizer:
    """The tokenizer of a file.

    Args:
        file: A `tokenizer.json` of Hugging Face.
    """

    def __init__(self, file: Path) -> None:
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_file(str(file))

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        return list(self.tokenizer.encode(text).ids)

    def decode(self, tokens: list[int]) -> str:
        """Return the text of tokens."""
        return str(self.tokenizer.decode(tokens))


def memory(device: str) -> str:
    """Return what is known of the memory: the device's peak, or that of the whole process on the CPU."""
    if device == "cpu":
        return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:.0f} MiB in the process"
    used, most = torch.accelerator.memory_allocated(), torch.accelerator.max_memory_allocated()
    return f"{used / 2**20:.0f} MiB on the device, {most / 2**20:.0f} at most"


def speak(model: Llama, tokenizer: Bytes | FileTokenizer, text: str, count: int) -> tuple[int, float, float]:
    """Print a text and what the model adds, with the speed on a line of its own on standard error, if that is a terminal.

    Args:
        model: Model that writes.
        tokenizer: Tokenizer of the model.
        text: Text that is not empty.
        count: Number of tokens to add.

    Returns:
        The number of the prompt's tokens, the seconds to the first token that is written, and the seconds of all the others.
    """
    prompt = tokenizer.encode(text)
    started = time.perf_counter()
    first, written = started, []
    for token in write(model, prompt, count):
        written.append(token)
        if len(written) == 1:
            first = time.perf_counter()
        elif sys.stderr.isatty():
            rate = (len(written) - 1) / (time.perf_counter() - first)
            state = f"{len(written)} of {count} tokens, {rate:.1f} tokens/s, {memory(model.frequencies.device.type)}"
            print(f"\r{state} ", end="", file=sys.stderr)
    ended = time.perf_counter()
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(text + tokenizer.decode(written))
    return len(prompt), first - started, ended - first


def main() -> None:
    """Read the command line, make the model, write and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="rustdev", help="rustdev, cpu, or another one that torch knows")
    parser.add_argument("--size", choices=SIZES, default="1b")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16", help="of activations, and of weights that are not quantised")
    parser.add_argument("--quantize", choices=QUANTISATIONS, default="none", help="weights of linear layers")
    parser.add_argument("--group", type=int, choices=quantized_linear.GROUPS, default=32, help="weights with one scale, in int4")
    parser.add_argument("--weights", type=Path, metavar="FILE.safetensors", help="default: random weights")
    parser.add_argument("--tokenizer", type=Path, metavar="FILE.json", help="default: a token is a byte")
    parser.add_argument("--prompt", default="The quick brown fox", metavar="TEXT")
    parser.add_argument("--tokens", type=int, default=32, metavar="N", help="how many are written")
    options = parser.parse_args()
    if not options.prompt or options.tokens < 1:
        parser.error("a prompt has a character, and one token is written at least")

    started = time.perf_counter()
    make = Maker(Weights(options.weights), options.device, DTYPES[options.dtype], options.quantize, options.group)
    try:
        model = Llama(SIZES[options.size], make)
    except ValueError as error:
        parser.error(str(error))
    seconds = time.perf_counter() - started
    kept = sum(tensor.nbytes for tensor in model.state_dict().values())
    print(f"{options.size}, {options.dtype}, {options.quantize}: {kept / 2**20:.0f} MiB of weights, made in {seconds:.1f} s")
    tokenizer = FileTokenizer(options.tokenizer) if options.tokenizer else Bytes()
    prompt, first, rest = speak(model, tokenizer, options.prompt, options.tokens)
    print(f"{prompt} tokens read at {prompt / first:.1f} tokens/s, {options.tokens} written", end="")
    print(f" at {(options.tokens - 1) / rest:.1f} tokens/s" if options.tokens > 1 else "", end="")
    print(f"; {memory(options.device)}")


if __name__ == "__main__":
    main()
