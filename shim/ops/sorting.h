// Sorting, for other operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace rustdev {

// The elements of a tensor of one dimension in ascending order, and their indices.
std::tuple<at::Tensor, at::Tensor> sorted_with_indices(const at::Tensor& line);

}  // namespace rustdev
