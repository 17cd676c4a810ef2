// PyTorch's structured metas for boxed arguments: the checks of an operator, and the sizes, strides and dtypes of its outputs.
#pragma once

namespace rustdev {

// The outputs of a call, as its meta sees and sets them.
class MetaOutputs {
 public:
  virtual const at::Tensor& get(int64_t index) const = 0;
  // Makes an output, or takes the caller's. `strides`: those of the memory format if the meta gives none.
  virtual void set(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) = 0;

 protected:
  ~MetaOutputs() = default;
};

// Runs a meta for boxed arguments.
using Meta = void (*)(const c10::IValue* arguments, MetaOutputs& outputs);

// The meta of an operator that compiled_names.txt lists under [metas].
Meta find_meta(std::string_view name);

}  // namespace rustdev
