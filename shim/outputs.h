// Outputs that PyTorch's metas and the operators in Rust ask for; the texts are PyTorch's.
#pragma once

#include <ATen/TensorMeta.h>
#include <ATen/core/Tensor.h>

#include <utility>

#include "tensor.h"

namespace rustdev {

at::Tensor new_output(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options);
void resize_out(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options);
void check_inplace(const at::Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options);

// A meta of one output, which is a new tensor with exactly the strides asked for.
template <class Meta>
class Functional final : public Meta {
 public:
  const at::Tensor& maybe_get_output(int64_t /*index*/) override { return output_; }

  void set_output_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options) override {
    set_output_raw_strided(index, sizes, strides, options);
  }

  void set_output_raw_strided(int64_t /*index*/, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    output_ = new_output(sizes, strides, options);
  }

  at::Tensor take() { return std::move(output_); }

 private:
  at::Tensor output_;
};

}  // namespace rustdev
