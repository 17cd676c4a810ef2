"""The programs of examples/, run from the command line, and the output of their networks."""

from pathlib import Path

import children
import diffusion
import lstm
import pytest
import torch
from compared_models import FAMILIES, text

EXAMPLES = Path(__file__).parents[2] / "examples"


def program(name: str, *arguments: str) -> list[str]:
    """Run a program, with the fallback forbidden, and return the lines that it prints."""
    result = children.python("-W", "error", EXAMPLES / name, *arguments, "--quiet", RUSTDEV_FALLBACK="error")
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.splitlines()


@pytest.mark.slow
def test_gpt_learns_a_text_by_heart(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("abcdefgh\n" * 200)
    lines = program("gpt.py", "--text", str(tmp_path / "text"), "--steps", "40", "--start", "abc", "--characters", "41", "--amp")
    assert "9 different characters" in lines[0]
    assert lines[-5:] == ["abcdefgh"] * 5


def test_an_image_is_drawn_as_on_the_cpu() -> None:
    torch.manual_seed(0)
    network = diffusion.Diffusion(diffusion.Denoiser(width=16, layers=2)).double()
    noise = torch.randn(2, 1, 8, 8, dtype=torch.float64)
    wanted = network.draw(noise, 20)
    torch.testing.assert_close(network.to("rustdev").draw(noise.to("rustdev"), 20).cpu(), wanted, rtol=1e-9, atol=1e-9)
    assert wanted.std() > 0.1


def test_an_lstm_keeps_its_state_while_it_writes() -> None:
    torch.manual_seed(0)
    network = FAMILIES["lstm"].network().to("rustdev")
    assert isinstance(network, lstm.LanguageModel)
    written = network.write(torch.tensor([1, 2], device="rustdev"), 20)
    assert written[:2].tolist() == [1, 2]
    assert 0 <= int(written.min()) <= int(written.max()) < len(text().characters)
    with torch.no_grad():
        whole = network(written[None])[0]
        state, last = None, []
        for character in written:
            found, state = network.layers(network.characters(character[None, None]), state)
            last.append(network.head(found[0, 0]))
    torch.testing.assert_close(torch.stack(last), whole, rtol=1e-4, atol=1e-5)
