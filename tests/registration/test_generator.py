"""Generators as PyTorch uses them: torch's seeds, checkpoints, other processes, DTensor, torch.accelerator.

tests/runtime/test_rng.py tests the numbers, states and offsets themselves.
"""

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed
from torch import nn
from torch.utils.checkpoint import checkpoint

DEVICES = ("rustdev:0", "rustdev:1")


def offsets() -> list[int]:
    return [generator.get_offset() for generator in torch.rustdev.default_generators]


def test_a_generator_of_its_own_has_the_whole_interface() -> None:
    generator = torch.Generator("rustdev")
    assert generator.manual_seed(5) is generator
    assert generator.initial_seed() == 5
    drawn = generator.seed()
    assert (generator.initial_seed(), generator.get_offset()) == (drawn, 0)
    torch.rand(8, device="rustdev", generator=generator)
    offset = generator.get_offset()
    assert offset > 0
    later = torch.rand(6, device="rustdev", generator=generator)
    generator.manual_seed(drawn).set_offset(offset)
    assert torch.equal(torch.rand(6, device="rustdev", generator=generator), later)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g)), torch.Generator.clone_state])
def test_copies_continue_alike_and_apart(duplicate: Callable[[torch.Generator], torch.Generator]) -> None:
    generator = torch.Generator("rustdev:1").manual_seed(8)
    torch.rand(3, device="rustdev:1", generator=generator)
    other = duplicate(generator)
    first = torch.rand(7, device="rustdev:1", generator=generator)
    assert other.get_offset() != generator.get_offset()
    assert torch.equal(torch.rand(7, device="rustdev:1", generator=other), first)


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.parametrize("device", DEVICES)
def test_dropout_under_checkpoint_repeats_its_mask(use_reentrant: bool, device: str) -> None:
    dropout, masks = nn.Dropout(0.5), []

    def function(x: torch.Tensor) -> torch.Tensor:
        masks.append(torch.rand(64, device=device) > 0.5)
        return dropout(x) * masks[-1]

    leaf = torch.ones(64, device=device, requires_grad=True)
    output = checkpoint(function, leaf, use_reentrant=use_reentrant)
    torch.rand(5, device=device)
    before = offsets()
    output.sum().backward()
    assert torch.equal(*masks)
    assert torch.equal(leaf.grad, output)
    assert 0 < int(output.count_nonzero()) < 64
    assert offsets() == before, "the recomputation must leave the generators as they were"


def test_threads_draw_disjoint_numbers_of_one_generator() -> None:
    generator = torch.Generator("rustdev").manual_seed(3)

    def draw(_: int) -> list[torch.Tensor]:
        return [torch.rand(4, device="rustdev", generator=generator) for _ in range(20)]

    with ThreadPoolExecutor(3) as pool:
        drawn = [numbers for each in pool.map(draw, range(3)) for numbers in each]
    offset = generator.get_offset()
    generator.manual_seed(3)
    expected = {tuple(torch.rand(4, device="rustdev", generator=generator).tolist()) for _ in range(60)}
    assert generator.get_offset() == offset
    assert {tuple(numbers.tolist()) for numbers in drawn} == expected


def test_dtensor_draws_the_numbers_of_one_device() -> None:
    import torch.distributed.tensor
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("cpu:fake,rustdev:fake", store=FakeStore(), rank=0, world_size=2)
    try:
        mesh = torch.distributed.device_mesh.init_device_mesh("rustdev", (2,))
        torch.manual_seed(31)
        drawn = torch.distributed.tensor.rand(8, 4, device_mesh=mesh, placements=[torch.distributed.tensor.Shard(0)])
        offset = torch.rustdev.default_generators[0].get_offset()
        torch.manual_seed(31)
        alone = torch.rand(4, 4, device="rustdev")
    finally:
        torch.distributed.destroy_process_group()
    assert torch.equal(drawn.to_local(), alone)
    assert offset >= 8 * 4, "each rank must skip what the others draw"


@pytest.mark.skipif(not hasattr(torch.accelerator, "random"), reason="torch.accelerator.random came with torch 2.15")
def test_accelerator_random() -> None:
    random = torch.accelerator.random
    torch.rustdev.set_device(1)
    torch.rustdev.manual_seed(15)
    torch.rand(3, device="rustdev")
    assert random.initial_seed() == 15
    assert torch.equal(random.get_rng_state(), torch.rustdev.get_rng_state(1))
    states = random.get_rng_state_all()
    assert [int(state[8:].view(torch.int64)) for state in states] == offsets()
    assert offsets()[1] > 0
    with pytest.raises(RuntimeError, match="invalid device ordinal 9"):
        random.get_rng_state(9)


def random_operators() -> list[str]:
    """Return the overloads of PyTorch's operators that take a generator, but for one that only CUDA has."""
    found = []
    for schema in torch._C._jit_get_all_schemas():
        takes_one = any(str(argument.type) == "Optional[Generator]" for argument in schema.arguments)
        if takes_one and schema.name.startswith(("aten::", "prims::")) and schema.name != "aten::_fused_dropout":
            found.append(f"{schema.name}.{schema.overload_name or 'default'}")
    return sorted(found)


#: Arguments of random operators by their names; all others are 3.
VALUES = {"low": 0, "from": 0, "a": 0.0, "lower": 0.1, "p": 0.5, "mean": 0.0, "num_samples": 2, "training": True}
VALUES |= {"dtype": torch.float32, "size": [3], "shape": [3], "stride": [1], "requires_grad": False}
#: Operators whose results are whole numbers.
WHOLE = ("randint", "randperm", "multinomial")


def draw(operator: str, device: str, generator: torch.Generator) -> None:
    """Call a random operator for tensors of a device."""
    namespace, _, rest = operator.partition("::")
    name, _, overload = rest.partition(".")
    function = getattr(getattr(getattr(torch.ops, namespace), name), overload)
    given: dict[str, object] = {}
    for argument in function._schema.arguments:
        kind = str(argument.type)
        if "Generator" in kind:
            given[argument.name] = generator
        elif argument.name == "device":
            given[argument.name] = torch.device(device)
        elif argument.name == "high" and kind == "Tensor":
            given[argument.name] = torch.tensor(3)
        elif argument.is_out:
            dtype = torch.int64 if name.startswith(WHOLE) else torch.float32
            given[argument.name] = torch.zeros(3, device=device, dtype=dtype)
        elif kind == "Tensor":
            given[argument.name] = torch.full((3,), 0.5, device=device)
        elif argument.name in ("training", "to") or not (argument.has_default_value() or kind.startswith("Optional")):
            given[argument.name] = VALUES.get(argument.name, 3)
    function(**given)


#: What PyTorch's kernels say, and its function that makes a permutation.
REFUSAL = "Expected a '{}' (device type for generator|generator device) but found '{}"


@pytest.mark.parametrize("operator", random_operators())
def test_a_generator_draws_for_tensors_of_its_own_device(operator: str) -> None:
    """In each direction, and for no tensor of the other device, as with CUDA."""
    host, ours = torch.Generator().manual_seed(1), torch.Generator("rustdev").manual_seed(1)
    draw(operator, "cpu", host)
    draw(operator, "rustdev", ours)
    states = host.get_state(), ours.get_state()
    with pytest.raises(RuntimeError, match=REFUSAL.format("cpu", "rustdev")):
        draw(operator, "cpu", ours)
    with pytest.raises(RuntimeError, match=REFUSAL.format("rustdev", "cpu")):
        draw(operator, "rustdev", host)
    assert torch.equal(host.get_state(), states[0])
    assert torch.equal(ours.get_state(), states[1])
