// What other operators take from sorting.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace rustdev {

// The elements of a tensor of one dimension in ascending order, and where they were.
std::tuple<at::Tensor, at::Tensor> sorted_with_places(const at::Tensor& line);

}  // namespace rustdev
