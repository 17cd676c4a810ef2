"""Checks for the conformance kit that end in every way, and the name of the device that has PyTorch's slot."""

import os
import time

import torch
from rustdev_conformance.checks import Absent, Device, Skipped, check, claimed


@check("fakes/pass")
def passes(device: Device) -> str:
    return torch._C._get_privateuse1_backend_name()


@check("fakes/fail")
def fails(device: Device) -> None:
    print("what a check prints is no answer")
    assert device.name == "other", "<b>wrong</b>"


@check("fakes/crash")
def crashes(device: Device) -> None:
    os.abort()


@check("fakes/hang")
def hangs(device: Device) -> None:
    time.sleep(600)


@check("fakes/exit")
def exits(device: Device) -> None:
    os._exit(7)


@check("fakes/absent")
def absent(device: Device) -> None:
    raise Absent("there is none")


@check("fakes/claimed")
def not_claimed(device: Device) -> None:
    with claimed("streams", device):
        raise RuntimeError("Backend doesn't support create a new Stream.")


@check("fakes/unsupported")
def unsupported(device: Device) -> None:
    raise NotImplementedError("no kernel")


@check("fakes/skipped")
def skipped(device: Device) -> None:
    raise Skipped("nothing")


@check("fakes/after")
def after(device: Device) -> None:
    """Pass, behind those that end the process."""
