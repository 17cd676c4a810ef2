"""A contender of the benchmark of language models, in a process of its own that measures when it is told to.

    python benches/models/llm_contender.py CONTENDER WEIGHTS RESULT.pt [--size 1b] [--threads N] [--prompt N] [--tokens N]
                                           [--gguf FILE.gguf]

bench_llm.py starts this program, with the variables of ``ENVIRONMENTS``. It makes the model, writes the logits of a fixed text to a
file and prints "ready". For each line that it reads it then prints the seconds of a prompt and of the tokens after it. All
contenders have the same random weights, from examples/chat.py, and read the same tokens.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import chat

#: The contenders with their environment variables, and the weights that each has.
ENVIRONMENTS = {
    "cpu": {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    "cpu_frozen": {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TORCHINDUCTOR_FREEZING": "1"},
    "torchao": {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TORCHINDUCTOR_FREEZING": "1"},
    "llama_cpp": {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    "rustdev": {"RUSTDEV_FALLBACK": "error"},
}
SIZES = chat.SIZES
WEIGHTS = ["float32", "bfloat16", "int8", "int4"]
MISSING = {("torchao", weights) for weights in WEIGHTS if weights != "int8"} | {("llama_cpp", "float32")}


class Contender(Protocol):
    """A model that reads tokens and remembers what it has read."""

    def begin(self) -> None:
        """Forget what was read."""

    def read(self, tokens: list[int]) -> Tensor:
        """Read tokens and return the logits of the next one, [vocabulary]."""


class OfTorch:
    """A model of examples/chat.py on a device.

    Args:
        options: The command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        name, weights = options.contender, options.weights
        self.device = "rustdev" if name == "rustdev" else "cpu"
        dtype = torch.float32 if weights == "float32" else torch.bfloat16
        quantize = weights if weights in chat.QUANTISATIONS and name != "torchao" else "none"
        model = chat.Llama(chat.SIZES[options.size], chat.Maker(chat.Weights(), self.device, dtype, quantize))
        self.cache = model.cache(options.prompt + options.tokens)
        if name == "torchao":
            from torchao.quantization import Int8WeightOnlyConfig, quantize_

            quantize_(model, Int8WeightOnlyConfig())
        # A graph for the prompt and one for a token.
        self.model = torch.compile(model, dynamic=False) if name in ("cpu_frozen", "torchao") else model

    def begin(self) -> None:
        """Begin at the first position. What the cache has after a position is not read."""
        self.position = 0

    @torch.no_grad()
    def read(self, tokens: list[int]) -> Tensor:
        """Read tokens and return the logits of the next one."""
        positions = torch.arange(self.position, self.position + len(tokens), device=self.device)
        self.position += len(tokens)
        logits: Tensor = self.model(torch.tensor([tokens], device=self.device), positions, self.cache)[0]
        return logits


class OfLlamaCpp:
    """A file of llama.cpp.

    Args:
        options: The command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        import llama_cpp

        self.library, threads = llama_cpp, {"n_threads": options.threads, "n_threads_batch": options.threads}
        self.model = llama_cpp.Llama(str(options.gguf), n_ctx=options.prompt + options.tokens, verbose=False, **threads)

    def begin(self) -> None:
        """Begin at the first position."""
        self.model.reset()

    def read(self, tokens: list[int]) -> Tensor:
        """Read tokens and return the logits of the next one."""
        import numpy as np

        self.model.eval(tokens)
        found = self.library.llama_get_logits_ith(self.model.ctx, -1)
        return torch.from_numpy(np.ctypeslib.as_array(found, (self.model.n_vocab(),)).copy())


def text(options: argparse.Namespace) -> list[list[int]]:
    """Return the parts of the text that every contender reads: the prompt, and tokens one by one."""
    vocabulary = chat.SIZES[options.size].vocabulary
    tokens = torch.randint(vocabulary, (options.prompt + options.tokens,), generator=torch.Generator().manual_seed(0)).tolist()
    return [tokens[: options.prompt], *([token] for token in tokens[options.prompt :])]


def spent(contender: Contender, parts: list[list[int]]) -> tuple[float, float]:
    """Return the seconds of the prompt and of the tokens. After each part the likeliest token is known, as to who writes."""
    contender.begin()
    moments = [time.perf_counter()]
    for part in parts:
        int(contender.read(part).argmax())
        moments.append(time.perf_counter())
    return moments[1] - moments[0], moments[-1] - moments[1]


def main(arguments: list[str]) -> None:
    """Make the model, write its logits, and measure at each line of the standard input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contender", choices=ENVIRONMENTS)
    parser.add_argument("weights", choices=WEIGHTS)
    parser.add_argument("result", type=Path)
    parser.add_argument("--size", choices=chat.SIZES, default="1b")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--prompt", type=int, default=256, metavar="N", help="tokens of the prompt")
    parser.add_argument("--tokens", type=int, default=32, metavar="N", help="tokens that are read one by one")
    parser.add_argument("--gguf", type=Path, help="file of llama.cpp")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    contender: Contender = OfLlamaCpp(options) if options.contender == "llama_cpp" else OfTorch(options)
    parts = text(options)
    contender.begin()
    torch.save(torch.stack([contender.read(part).float().cpu() for part in parts]), options.result)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(*spent(contender, parts), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
