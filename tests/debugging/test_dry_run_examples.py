"""The peaks of a dry run are those of a computed run, to the byte: the programs of examples/ and training of all kinds."""

import importlib.util
import json
from pathlib import Path

import pytest
from children import python

EXAMPLES = Path(__file__).parents[2] / "examples"

#: Runs an example, with other values for some of its constants, and prints the peaks of allocated and reserved memory.
WITH_PEAKS = """
import contextlib, importlib, io, json, os, runpy, sys
sys.path.insert(0, sys.argv[1])
constants, module = json.loads(sys.argv[2]), sys.argv[3]
sys.argv = [module + ".py", *sys.argv[4:]]
with contextlib.redirect_stdout(io.StringIO()):
    if constants:
        program = importlib.import_module(module)
        vars(program).update(constants)
        program.main()
    else:
        runpy.run_path(os.path.join(sys.path[0], module + ".py"), run_name="__main__")
import torch
print(json.dumps([torch.rustdev.max_memory_allocated(), torch.rustdev.max_memory_reserved()]))
"""
LLAMA = {"WIDTH": 64, "HEADS": 4, "HIDDEN": 172, "VOCABULARY": 500}
LOOP = ("--steps", "2", "--quiet")
PROGRAMS = {
    "accelerate_digits": ("--epochs", "1"),
    "chat": ("--size", "tiny", "--tokens", "4"),
    "diffusion": LOOP,
    "digits": ("--epochs", "1"),
    "gpt": (*LOOP, "--characters", "4"),
    "graph_network": LOOP,
    "graph_training": ("--steps", "8"),
    "lightning_digits": ("--epochs", "1"),
    "lstm": LOOP,
    "mobilenet": LOOP,
    "profile_transformer": (),
    "recommender": LOOP,
    "resnet": LOOP,
    "trainer_counting": ("--epochs", "1"),
    "unet": LOOP,
    "vision_transformer": LOOP,
}
#: Libraries that an example needs and that may be absent.
LIBRARIES = {
    "accelerate_digits": "accelerate",
    "digits": "tqdm",
    "lightning_digits": "lightning",
    "trainer_counting": "transformers",
}

#: Programs with sizes that depend on values, of which a dry run takes the largest: coalesced sparse gradients.
DEPENDS_ON_VALUES = {"recommender"}


def peaks(mode: str, module: str, *arguments: str, constants: dict[str, int] | None = None, directory: Path) -> list[int]:
    """Run an example, and return its peaks of allocated and reserved memory in bytes."""
    words = (str(EXAMPLES), json.dumps(constants or {}), module, *arguments)
    result = python("-c", WITH_PEAKS, *words, directory=directory, RUSTDEV_COMPUTE=mode, RUSTDEV_PROFILE="t4-16g")
    assert result.returncode == 0, result.stderr
    found: list[int] = json.loads(result.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("module", PROGRAMS)
def test_an_example_has_the_peaks_of_a_computed_run(module: str, tmp_path: Path) -> None:
    if module in LIBRARIES and importlib.util.find_spec(LIBRARIES[module]) is None:
        pytest.skip(f"{LIBRARIES[module]} is not installed: `make demo` or `make test-libraries` does that")
    dry, computed = (peaks(mode, module, *PROGRAMS[module], directory=tmp_path) for mode in ("none", ""))
    if module in DEPENDS_ON_VALUES:
        assert dry >= computed
    else:
        assert dry == computed
    assert computed[0] > 0


@pytest.mark.parametrize("switches", ["--dtype float32", "--checkpoint --batch 2", "--shard 4 --checkpoint --optimizer adamw8bit"])
def test_a_language_model_has_the_peaks_of_a_computed_run(switches: str, tmp_path: Path) -> None:
    arguments = ("--layers", "2", "--length", "32", *switches.split())
    dry, computed = (peaks(mode, "llama_training", *arguments, constants=LLAMA, directory=tmp_path) for mode in ("none", ""))
    assert dry == computed


def test_every_example_is_run() -> None:
    shared = {"adamw_8bit", "quantized_linear", "training_loop"}
    others = {"ddp", "llama_training"}  # in test_dry_run_ranks.py, and above
    assert {file.stem for file in EXAMPLES.glob("*.py")} == set(PROGRAMS) | shared | others
