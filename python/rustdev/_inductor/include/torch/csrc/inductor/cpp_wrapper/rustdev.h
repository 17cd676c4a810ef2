// The first header of a graph that `cpp_wrapper` has in C++ for the device.
#pragma once

#include <torch/csrc/inductor/cpp_wrapper/common.h>
#include <torch/csrc/inductor/rustdev.h>
