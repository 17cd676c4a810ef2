"""Measure the inference of a real model by one compiler, in a process of its own; print the milliseconds of a pass.

    python benches/models/alone.py MODEL CONTENDER RESULT.pt [--threads N] [--quick]

compare_real.py starts this program, with the variables of ``ENVIRONMENTS``. The result of the model goes to a file. The CPU's
contenders run without rustdev. All of them run in float32.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from measuring import Task, alternate
from real_models import TASKS, make_task

#: The contenders, with the environment variables of each.
ENVIRONMENTS = {
    "cpu_frozen": {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TORCHINDUCTOR_FREEZING": "1"},
    "openvino": {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    "device_compiled": {"TORCHINDUCTOR_FREEZING": "0"},
    "device_frozen": {"TORCHINDUCTOR_FREEZING": "1"},
}


def compiled(task: Task, device: str) -> Callable[[], torch.Tensor]:
    """Return the model's pass on a device, compiled by torch.compile."""
    given = [tensor.to(device) for tensor in task.given]
    model = torch.compile(task.model.to(device))

    def call() -> torch.Tensor:
        with torch.no_grad():
            return torch.as_tensor(model(*given))

    return call


def openvino_pass(task: Task, threads: int) -> Callable[[], torch.Tensor]:
    """Return the model's pass by OpenVINO, for inputs of these sizes."""
    import openvino

    # Exported: a traced Llama has operators that OpenVINO does not convert.
    with torch.no_grad():
        converted = openvino.convert_model(torch.export.export(task.model, task.given))
    converted.reshape({index: list(tensor.shape) for index, tensor in enumerate(task.given)})
    options = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    request = openvino.Core().compile_model(converted, "CPU", options).create_infer_request()
    given = [tensor.numpy() for tensor in task.given]

    def call() -> torch.Tensor:
        return torch.from_numpy(request.infer(given, share_inputs=True, share_outputs=True)[0])

    return call


def main(arguments: list[str]) -> None:
    """Measure, write the result and print the time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=TASKS)
    parser.add_argument("contender", choices=ENVIRONMENTS)
    parser.add_argument("result", type=Path)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--quick", action="store_true", help="a short run, whose figures mean little")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    task = make_task(options.model)
    if options.contender == "openvino":
        call = openvino_pass(task, options.threads)
    else:
        call = compiled(task, options.contender.partition("_")[0].replace("device", "rustdev"))
    torch.save(call().cpu(), options.result)
    print(*alternate([call], quick=options.quick))


if __name__ == "__main__":
    main(sys.argv[1:])
