// Outputs of structured operators: PyTorch's metas request them through set_output_*, and the three variants (functional, in-place,
// out=) differ in where they come from. One class template per variant, derived from the meta's class; the texts are PyTorch's.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <optional>

#include "tensor.h"

namespace rustdev {

at::Tensor new_output(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options);
void resize_out(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options);
void check_inplace(const at::Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options);

// What the variants share: N outputs, and the super call that only TensorIterator's metas want.
template <class Meta, size_t N>
class Outputs : public Meta {
 public:
  const at::Tensor& maybe_get_output(int64_t index) override { return outputs_[index]; }

 protected:
  void announce(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options) {
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Meta>) {
      Meta::set_output_raw_strided(index, sizes, strides, options);
    }
  }

  std::array<at::Tensor, N> outputs_;
};

// New tensors, with exactly the strides asked for.
template <class Meta, size_t N = 1>
class Functional final : public Outputs<Meta, N> {
 public:
  void set_output_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options) override {
    set_output_raw_strided(index, sizes, strides, options);
  }

  void set_output_raw_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options) override {
    this->outputs_[index] = new_output(sizes, strides, options);
    this->announce(index, sizes, strides, options);
  }

  at::Tensor take(size_t index) { return std::move(this->outputs_[index]); }
};

// Tensors of the caller. Where a meta insists on strides that they do not have, a temporary stands in and is copied at the end.
template <class Meta, size_t N, bool inplace>
class Given final : public Outputs<Meta, N> {
 public:
  explicit Given(const std::array<at::Tensor*, N>& given) : given_(given) {
    for (size_t index = 0; index < N; ++index) {
      this->outputs_[index] = *given_[index];
    }
  }

  void set_output_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options) override {
    prepare(index, sizes, strides, options);
    if (given_[index]->strides() != strides) {
      this->outputs_[index] = new_output(sizes, strides, options);
      proxied_ = true;
    }
    this->announce(index, sizes, strides, options);
  }

  void set_output_raw_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options) override {
    prepare(index, sizes, strides, options);
    this->announce(index, sizes, strides, options);
  }

  void finish() {
    if (C10_UNLIKELY(proxied_)) {
      for (size_t index = 0; index < N; ++index) {
        if (!this->outputs_[index].is_same(*given_[index])) {
          given_[index]->copy_(this->outputs_[index]);
        }
      }
    }
  }

 private:
  void prepare(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
    if constexpr (inplace) {
      check_inplace(*given_[index], sizes, options);
    } else {
      resize_out(*given_[index], sizes, strides, options);
    }
  }

  std::array<at::Tensor*, N> given_;
  bool proxied_ = false;
};

}  // namespace rustdev
