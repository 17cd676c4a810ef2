"""Caching of compiled code: the next process finds it, and code of another version of rustdev is never used."""

import json
from pathlib import Path
from typing import Any

import children
import pytest
import torch
from generated import fresh_cache
from rustdev import _rustdev
from rustdev._inductor import kernels
from rustdev._inductor.interface import Interface
from torch._inductor.codecache import CacheBase

PROGRAM = """
import json, sys, torch
from torch._dynamo.utils import counters
from rustdev import _rustdev
from rustdev._inductor import interface, kernels
exec(sys.argv[1])
compiled = torch.compile(lambda x: x.sin() * 3 + 1, fullgraph=True)
result = compiled(torch.ones(5, device="rustdev:1"))
print(json.dumps({"hits": counters["inductor"]["fxgraph_cache_hit"], "misses": counters["inductor"]["fxgraph_cache_miss"],
                  "value": result[0].item(), "device": str(result.device)}))
"""


def run(cache: Path, first: str = "", **environment: str) -> dict[str, Any]:
    done = children.run(PROGRAM, first, timeout=300, TORCHINDUCTOR_CACHE_DIR=str(cache), **environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["value"] == pytest.approx(3.5244, abs=1e-3)
    assert found["device"] == "rustdev:1"
    return found


def libraries(cache: Path) -> set[Path]:
    return set(cache.rglob("*.main.so"))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return fresh_cache(tmp_path)


@pytest.mark.slow
def test_the_next_process_compiles_nothing_but_for_another_rustdev(cache: Path) -> None:
    assert run(cache)["misses"] == 1
    first = libraries(cache)
    assert len(first) == 1
    # A compile that was killed by an earlier release may have left a part of a library.
    (library,) = first
    library.write_bytes(library.read_bytes()[:1000])
    assert run(cache)["hits"] == 1
    assert run(cache, "_rustdev.__version__ = '0.0.1'")["misses"] == 1
    least = torch.rustdev.get_arch_list()[0]
    assert run(cache, RUSTDEV_ISA=least)["misses"] == (0 if least == torch.rustdev.get_arch_list()[-1] else 1)
    assert libraries(cache) == first
    glue = "prefix = kernels.prefix; kernels.prefix = lambda: prefix() + '// another'; interface._hash_of_generator = lambda: '1'"
    assert run(cache, glue)["misses"] == 1
    assert len(libraries(cache)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_are_compiled_in_the_process_or_beside_it(cache: Path, threads: int) -> None:
    watch = """
from torch._inductor.async_compile import AsyncCompile
submit = AsyncCompile.submit
AsyncCompile.submit = staticmethod(lambda task: print("submitted", file=sys.stderr) or submit(task))
"""
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(cache), "TORCHINDUCTOR_COMPILE_THREADS": str(threads)}
    done = children.run(PROGRAM, watch, timeout=300, **environment)
    assert json.loads(done.stdout)["misses"] == 1, done.stderr
    assert done.stderr.count("submitted") == (0 if threads == 1 else 1)


def test_the_key_names_what_code_depends_on() -> None:
    information = Interface.get_cache_system_info()
    assert information["version"] == torch.rustdev.__version__
    assert information["instruction_set"] == _rustdev.instruction_set()
    assert CacheBase.get_system()["device_interfaces"]["rustdev"] == information


def test_a_changed_generator_has_another_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rustdev._inductor import interface

    for name in ("interface.py", "kernel.h"):
        (tmp_path / name).write_bytes(Path(interface.__file__).with_name(name).read_bytes())
    monkeypatch.setattr(interface, "__file__", str(tmp_path / "interface.py"))
    before = interface._hash_of_generator()
    assert interface._hash_of_generator() == before
    with (tmp_path / "kernel.h").open("a") as file:
        file.write("// changed\n")
    assert interface._hash_of_generator() != before


def test_a_kernel_that_does_not_compile_is_an_error() -> None:
    broken = kernels.kernel([], "// rustdev\nthis is no C++")
    with pytest.raises(Exception, match="C\\+\\+ compile error"):
        broken.result()
