// Metas of our own for PyTorch's CPU kernels that are not structured: results like one of the operands.
#pragma once

#include <ATen/TensorMeta.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/LinearAlgebraUtils.h>

#include <tuple>

namespace rustdev {

// Contiguous, in the memory format that the operand suggests, or each matrix column by column.
enum class Layout { contiguous, suggested, column_major };

// A result of the sizes and dtype of argument number `index`.
template <size_t index, Layout layout, class... Args>
struct Like : at::impl::MetaBase {
  void meta(Args... args) {
    const at::Tensor& operand = std::get<index>(std::forward_as_tuple(args...));
    if constexpr (layout == Layout::column_major) {
      const at::DimVector strides = at::native::batched_matrix_contiguous_strides(operand.sizes(), /*f_contig=*/true);
      set_output_raw_strided(0, operand.sizes(), strides, operand.options());
    } else {
      const bool suggests = layout == Layout::suggested;
      const auto format = suggests ? operand.suggest_memory_format() : at::MemoryFormat::Contiguous;
      set_output_raw_strided(0, operand.sizes(), {}, operand.options().memory_format(format));
    }
  }
};

}  // namespace rustdev
