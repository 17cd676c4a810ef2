// PyTorch's structured metas for boxed arguments: the checks of an operator, and the sizes, strides and dtypes of its outputs.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <string_view>

namespace rustdev {

// The outputs of a call whose meta runs.
class MetaOutputs {
 public:
  virtual const at::Tensor& get(int64_t index) const = 0;
  // Makes an output, or takes the caller's. The strides are those of the memory format where the meta says none.
  virtual void set(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) = 0;

 protected:
  ~MetaOutputs() = default;
};

// Runs a meta for boxed arguments.
using Meta = void (*)(const c10::IValue* arguments, MetaOutputs& outputs);

// The meta of an operator by its name, which is one of compiled_names.txt.
Meta find_meta(std::string_view name);

}  // namespace rustdev
