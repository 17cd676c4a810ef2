"""Random generators: seeds, states, offsets, and errors."""

import struct

import pytest
import torch
import torch.utils.checkpoint


def draw(device: str = "rustdev") -> list[float]:
    """Return some random numbers of a device."""
    return torch.rand(8, device=device).tolist()


def test_manual_seed_repeats() -> None:
    torch.manual_seed(7)
    first = draw()
    assert draw() != first
    torch.manual_seed(7)
    assert draw() == first
    torch.rustdev.manual_seed(7)
    assert draw() == first
    assert torch.rustdev.initial_seed() == 7


def test_manual_seed_of_one_device_and_of_all() -> None:
    torch.rustdev.manual_seed_all(7)
    assert [generator.initial_seed() for generator in torch.rustdev.default_generators] == [7, 7]
    with torch.rustdev.device(1):
        torch.rustdev.manual_seed(8)
        assert torch.rustdev.initial_seed() == 8
    assert torch.rustdev.initial_seed() == 7
    draw("rustdev:1")
    torch.manual_seed(9)
    assert [(generator.initial_seed(), generator.get_offset()) for generator in torch.rustdev.default_generators] == [(9, 0)] * 2
    assert draw("rustdev:0") == draw("rustdev:1")
    assert torch.seed() == torch.rustdev.default_generators[1].initial_seed()


def test_negative_and_large_seeds() -> None:
    torch.rustdev.manual_seed(-1)
    assert torch.rustdev.initial_seed() == 2**64 - 1
    torch.rustdev.manual_seed(2**63)
    assert torch.rustdev.initial_seed() == 2**63


def test_seed_draws_from_entropy() -> None:
    torch.rustdev.seed()
    first = torch.rustdev.initial_seed()
    torch.rustdev.seed_all()
    second = torch.rustdev.initial_seed()
    assert first != second
    assert torch.rustdev.default_generators[1].initial_seed() == second


def test_state_is_seed_and_offset() -> None:
    torch.rustdev.manual_seed(0x0123456789ABCDEF)
    state = torch.rustdev.get_rng_state()
    assert state.dtype == torch.uint8
    assert state.device.type == "cpu"
    assert state.shape == (16,)
    assert struct.unpack("<QQ", bytes(state.tolist())) == (0x0123456789ABCDEF, 0)
    draw()
    seed, offset = struct.unpack("<QQ", bytes(torch.rustdev.get_rng_state().tolist()))
    assert seed == 0x0123456789ABCDEF
    assert offset > 0
    assert offset % 4 == 0


def test_state_round_trip_of_all_devices() -> None:
    torch.rustdev.manual_seed_all(3)
    draw("rustdev:1")
    states = torch.rustdev.get_rng_state_all()
    assert len(states) == 2
    assert not torch.equal(*states)
    numbers = [draw("rustdev:0"), draw("rustdev:1")]
    torch.rustdev.set_rng_state_all(states)
    assert [draw("rustdev:0"), draw("rustdev:1")] == numbers
    assert torch.equal(torch.rustdev.get_rng_state("rustdev:1"), torch.rustdev.get_rng_state(torch.device("rustdev", 1)))


def test_too_few_or_too_many_states_change_nothing() -> None:
    before = torch.rustdev.get_rng_state_all()
    other = torch.zeros(16, dtype=torch.uint8)
    for states in ([other], [other] * 3, []):
        with pytest.raises(ValueError, match=f"there are 2 devices, but {len(states)} states"):
            torch.rustdev.set_rng_state_all(states)
    assert all(map(torch.equal, torch.rustdev.get_rng_state_all(), before))


def test_devices_draw_apart() -> None:
    torch.rustdev.manual_seed_all(5)
    before = torch.rustdev.get_rng_state(1)
    draw("rustdev:0")
    assert torch.equal(torch.rustdev.get_rng_state(1), before)


@pytest.mark.parametrize(
    ("state", "error", "text"),
    [
        (torch.zeros(15, dtype=torch.uint8), RuntimeError, "16 bytes"),
        (torch.zeros(8, dtype=torch.uint8), RuntimeError, "16 bytes"),
        (torch.zeros(16), TypeError, "ByteTensor"),
        (torch.zeros(32, dtype=torch.uint8)[::2], RuntimeError, "contiguous"),
        (torch.tensor([0] * 8 + [3] + [0] * 7, dtype=torch.uint8), RuntimeError, "multiple of 4"),
    ],
)
def test_bad_states_are_refused(state: torch.Tensor, error: type[Exception], text: str) -> None:
    before = torch.rustdev.get_rng_state()
    with pytest.raises(error, match=text):
        torch.rustdev.set_rng_state(state)
    assert torch.equal(torch.rustdev.get_rng_state(), before)


def test_offset() -> None:
    torch.rustdev.manual_seed(1)
    assert torch.rustdev._get_rng_state_offset() == 0
    first = draw()
    offset = torch.rustdev._get_rng_state_offset()
    second = draw()
    torch.rustdev._set_rng_state_offset(0)
    assert draw() == first
    torch.rustdev._set_rng_state_offset(offset)
    assert draw() == second
    with pytest.raises(RuntimeError, match="multiple of 4"):
        torch.rustdev._set_rng_state_offset(3)


def test_generator_shares_state() -> None:
    generator, other = torch.Generator("rustdev").manual_seed(4), torch.Generator("rustdev").manual_seed(5)
    other.graphsafe_set_state(generator.graphsafe_get_state())
    torch.rand(5, device="rustdev", generator=generator)
    assert torch.equal(other.get_state(), generator.get_state())


def test_generator_of_another_device_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected a generator of rustdev:0, got one of rustdev:1"):
        torch.rand(4, device="rustdev:0", generator=torch.Generator("rustdev:1"))
    with pytest.raises(RuntimeError, match="device type for generator but found 'cpu'"):
        torch.rand(4, device="rustdev:0", generator=torch.Generator("cpu"))


def test_numbers_are_those_of_the_order_of_submission() -> None:
    torch.rustdev.manual_seed(6)
    expected = [draw(), draw()]
    torch.rustdev.manual_seed(6)
    slow, fast = torch.rustdev.Stream(), torch.rustdev.Stream()
    with torch.rustdev.stream(slow):
        torch.rustdev._sleep(50_000_000)
        first = torch.rand(8, device="rustdev")
    with torch.rustdev.stream(fast):
        second = torch.rand(8, device="rustdev")
    torch.rustdev.synchronize()
    assert [first.tolist(), second.tolist()] == expected
