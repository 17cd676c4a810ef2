"""torchtitan: its debug model of Llama by its own trainer, divided among four ranks in every way, beside PyTorch's CPU device.

A process on the CPU device makes the weights that all of them start from, and trains by PyTorch alone. torchtitan finds the device
by itself.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, NamedTuple

import pytest
from conftest import Programs
from tokenizers import Tokenizer, models, pre_tokenizers

if TYPE_CHECKING:
    from pathlib import Path

#: A configuration of torchtitan's debug model with four layers, which starts from the folder "start" where that is.
CONFIGURE = """
import json, os, sys
import torch
from torchtitan.config import ConfigManager


def configuration(*options):
    made = ConfigManager().parse_args([
        "--module", "llama3", "--config", "llama3_debugmodel", "--hf_assets_path", "tokenizer",
        "--dataloader.dataset_path", "texts", "--training.disable_cuda_graphs", "--training.steps", "3",
        "--training.seq_len", "256", "--training.local_batch_size", "2",
        "--training.mixed_precision_param", "float32", "--checkpoint.enable", "--checkpoint.interval", "100",
        "--checkpoint.initial_load_path", os.path.abspath("start"), *options,
    ])
    del made.model_spec.model.layers[4:]
    return made
"""

#: The weights to start from, and losses on the CPU device for the rows of one, two and four data parallel ranks.
ON_CPU = """
import torch.distributed.checkpoint as checkpoint
from torch.nn import functional
from torch.nn.attention.flex_attention import create_mask
from torchtitan.models.common.attention import FlexAttention


def attention(q, k, v, *, block_mask, **options):
    length = q.shape[2]
    mask = create_mask(block_mask.mask_mod, q.shape[0], 1, length, length, "cpu")
    return functional.scaled_dot_product_attention(q, k, v, mask), None


# PyTorch has no backward of flex_attention on the CPU device.
FlexAttention.compiled_flex_attn = staticmethod(attention)


def losses(ranks):
    options = configuration()
    torch.manual_seed(0)
    options.model_spec.model.update_from_config(config=options)
    model = options.model_spec.model.build()
    with torch.no_grad():
        model.init_weights(buffer_device=None)
    if not os.path.exists("start"):
        checkpoint.save(model.state_dict(), checkpoint_id="start")
    optimizers = options.optimizer.build(model_parts=[model])
    rates = options.lr_scheduler.build(optimizers=optimizers, training_steps=3)
    words = options.tokenizer.build(tokenizer_path=options.hf_assets_path)
    sizes = {"dp_world_size": ranks, "tokenizer": words, "seq_len": 256, "local_batch_size": 2}
    loaders = [iter(options.dataloader.build(dp_rank=rank, **sizes)) for rank in range(ranks)]
    found = []
    for _ in range(3):
        parts = [next(loader) for loader in loaders]
        inputs, positions = (torch.cat([part[0][name] for part in parts]) for name in ("input", "positions"))
        masks = model.get_attention_masks(positions=positions)
        output = model(inputs, positions=positions, attention_masks=masks)
        loss = functional.cross_entropy(output.flatten(0, 1), torch.cat([part[1] for part in parts]).flatten())
        optimizers.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizers.step()
        rates.step()
        found.append(loss.item())
    return found


print("<<" + json.dumps({ranks: losses(ranks) for ranks in (1, 2, 4)}) + ">>")
"""

#: Training by torchtitan with the options of sys.argv, in each rank.
TRAIN = """
from torch import distributed

trainer = configuration(*sys.argv[1:]).build()
losses = []
trainer.metrics_processor.log = lambda step, loss, *args, **options: losses.append(loss)
trainer.train()
parameter = next(trainer.model_parts[0].parameters())
trainer.close()
if distributed.get_rank() == 3:
    print("<<" + json.dumps([distributed.get_backend(), str(parameter.device), losses]) + ">>", flush=True)
distributed.destroy_process_group()
"""

FSDP, HSDP = "--parallelism.data_parallel_shard_degree 2", "--parallelism.data_parallel_replicate_degree 2"
TENSORS, PIPELINE = "--parallelism.tensor_parallel_degree 2", "--parallelism.pipeline_parallel_degree 2"
CONTEXT = "--parallelism.context_parallel_degree 2 --parallelism.context_parallel_load_balancer None"
#: Options, the number of data parallel ranks, and whether the program is one for "cuda".
WAYS = {
    "FSDP and tensors": (f"{FSDP} {TENSORS}", 2, False),
    "FSDP and tensors as cuda": (f"{FSDP} {TENSORS}", 2, True),
    "pipeline and FSDP": (f"{PIPELINE} {FSDP}", 2, False),
    "context and tensors": (f"{CONTEXT} {TENSORS}", 1, False),
    "HSDP, compiled": (f"{HSDP} {FSDP} --compile.enable", 4, False),
}


class Prepared(NamedTuple):
    """Runs programs where the weights to start from are, with the losses of the CPU device by numbers of data parallel ranks."""

    programs: Programs
    wanted: dict[str, list[float]]


def write_texts(directory: Path) -> None:
    """Write texts of a small vocabulary, and its tokenizer."""
    words = [first + second for first in "bcdfghjklmnprst" for second in ("a", "e", "i", "o", "u", "ai", "ou")]
    names = ["<unk>", "<s>", "</s>", *words]
    made = Tokenizer(models.WordLevel({name: index for index, name in enumerate(names)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    (directory / "tokenizer").mkdir()
    made.save(str(directory / "tokenizer" / "tokenizer.json"))
    (directory / "tokenizer" / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
    (directory / "texts").mkdir()
    numbers = random.Random(0)
    texts = [" ".join(words[(start + i * i) % len(words)] for i in range(numbers.randrange(20, 80))) for start in range(400)]
    (directory / "texts" / "data.json").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    directory = tmp_path_factory.mktemp("torchtitan")
    write_texts(directory)
    programs = Programs(directory)
    programs.environment |= {"HF_HOME": str(directory / "home"), "RUSTDEV_DEVICE_COUNT": "4", "OMP_NUM_THREADS": "1"}
    programs.timeout = 900
    printed = programs.script(CONFIGURE + ON_CPU)
    return Prepared(programs, json.loads(printed.split("<<")[1].split(">>")[0]))


@pytest.mark.parametrize("way", WAYS)
def test_training_is_the_cpus(way: str, prepared: Prepared) -> None:
    options, ranks, is_cuda = WAYS[way]
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "4", *(["-m", "rustdev.as_cuda"] if is_cuda else [])]
    code = f"{CONFIGURE}sys.argv[1:] = {['--dump_folder', way, *options.split()]}\n{TRAIN}"
    printed = prepared.programs.script(code, *launcher)
    backend, parameter, losses = json.loads(printed.split("<<")[1].split(">>")[0])
    assert (backend, parameter) == (("nccl", "cuda:3") if is_cuda else ("rdccl", "rustdev:3"))
    assert losses == pytest.approx(prepared.wanted[str(ranks)], rel=1e-5)
