// Embedding tables: gradients, embedding bags and their gradients, renorm; and bincount, which accumulates in the same way.
#include <ATen/TensorUtils.h>
#include <ATen/ops/_embedding_bag_dense_backward.h>
#include <ATen/ops/_embedding_bag_sparse_backward.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/zeros.h>

#include "awaited.h"
#include "indexing.h"
#include "ops/factory.h"
#include "ops/lines.h"

namespace rustdev {
namespace {

using OptionalTensor = const std::optional<at::Tensor>&;
using Bags = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
constexpr int64_t mode_sum = 0;
constexpr int64_t mode_mean = 1;
constexpr int64_t mode_max = 2;

void check_index_dtype(const at::Tensor& tensor, const char* argument, const char* name) {
  TORCH_CHECK(tensor.scalar_type() == at::ScalarType::Long || tensor.scalar_type() == at::ScalarType::Int,
              "Expected tensor for argument ", argument, " to have one of the following scalar types: Long, Int; but got ",
              tensor.toString(), " instead (while checking arguments for ", name, ")");
}

void check_indices(const at::Tensor& indices, const char* name) { check_index_dtype(indices, "#2 'indices'", name); }

// 1 over how often the index at each place occurs among all.
at::Tensor inverse_counts(const Binding& binding, const at::Tensor& indices, int64_t num_rows, at::ScalarType dtype) {
  const auto options = indices.options().dtype(at::kDouble);
  const at::Tensor counts = at::zeros({num_rows}, options);
  launch_update(binding, each_slice(counts, 0, indices), counts, at::Scalar(1), {Operation::add});
  return counts.index_select(0, indices).reciprocal_().to(dtype);
}

struct EmbeddingBackward {
  static inline Binding binding;

  static at::Tensor functional(const at::Tensor& grad, const at::Tensor& indices, int64_t num_weights, int64_t padding_idx,
                               bool scale_grad_by_freq) {
    check_indices(indices, "embedding_backward");
    const at::Tensor dense_indices = indices.reshape({-1});
    at::Tensor rows = grad.reshape({dense_indices.numel(), grad.size(-1)});
    at::Tensor result = at::zeros({num_weights, grad.size(-1)}, grad.options());
    if (dense_indices.numel() != 0) {
      if (scale_grad_by_freq) {
        rows = rows.mul(inverse_counts(binding, dense_indices, num_weights, rows.scalar_type()).unsqueeze(1));
      }
      Update update{Operation::add};
      update.skipped = padding_idx;
      launch_update(binding, each_slice(result, 0, dense_indices), result, rows, update);
    }
    return result;
  }
};

struct EmbeddingBag {
  static inline Binding binding;

  static Bags functional(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets, bool, int64_t mode, bool,
                         OptionalTensor weights_of, bool include_last_offset, int64_t padding_idx) {
    const at::Tensor sample_weights = given(weights_of);
    check(weight, indices, offsets, mode, sample_weights, include_last_offset);
    const int64_t bags = offsets.size(0) - (include_last_offset ? 1 : 0);
    const at::Device device = weight.device();
    const at::Tensor output = new_empty({bags, weight.size(1)}, weight.scalar_type(), device);
    const at::Tensor bag_of = new_empty(indices.sizes(), at::ScalarType::Long, device);
    // Sizes and dtypes are those of PyTorch's meta kernel for accelerators: no maxima without mode "max", a size for the last
    // offset.
    const at::Tensor all_sizes = new_empty(offsets.sizes(), at::ScalarType::Long, device);
    const at::Tensor sizes = include_last_offset ? all_sizes.narrow(0, 0, bags) : all_sizes;
    const at::Tensor maxima = mode == mode_max ? new_empty(output.sizes(), at::ScalarType::Long, device)
                                               : new_empty({bags}, at::ScalarType::Long, device);
    if (bags != 0) {
      const at::Tensor table = weight.contiguous();
      const at::Tensor dense_indices = indices.contiguous();
      const at::Tensor starts = offsets.contiguous();
      const at::Tensor scales = sample_weights.defined() ? sample_weights.contiguous() : at::Tensor();
      c10::SmallVector<const at::Tensor*, 4> inputs{&table, &dense_indices, &starts};
      if (scales.defined()) {
        inputs.push_back(&scales);
      }
      launch_shaped_or_throw(binding, weight.scalar_type(), {&output, &bag_of, &sizes, &maxima}, inputs,
                             scalars_of<"_embedding_bag", "mode, padding">(mode, padding_idx));
    }
    if (include_last_offset) {
      all_sizes.narrow(0, bags, 1).zero_();
    }
    const at::ScalarType dtype = indices.scalar_type();
    return {output, bag_of.to(dtype), all_sizes.to(dtype), mode == mode_max ? maxima.to(dtype) : new_empty({0}, dtype, device)};
  }

 private:
  static void check(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets, int64_t mode,
                    const at::Tensor& sample_weights, bool include_last_offset) {
    // The two may differ: the kernel reads each in its own dtype.
    check_indices(indices, "embedding_bag");
    check_index_dtype(offsets, "#3 'offsets'", "embedding_bag");
    TORCH_CHECK(indices.dim() == 1 && offsets.dim() == 1 && weight.dim() == 2,
                "embedding_bag: expected indices and offsets of one dimension and a weight of two, but got ", indices.dim(), ", ",
                offsets.dim(), " and ", weight.dim());
    TORCH_CHECK(c10::isFloatingType(weight.scalar_type()) && takes_dtype(binding, weight.scalar_type()),
                "embedding_bag: expected a weight of a floating-point dtype, but got ", weight.scalar_type());
    TORCH_CHECK(weight.device() == indices.device() && weight.device() == offsets.device(),
                "embedding_bag: expected weight, indices and offsets on one device");
    TORCH_CHECK(!include_last_offset || offsets.size(0) >= 1, "include_last_offset: number of offset should be at least 1");
    if (sample_weights.defined()) {
      TORCH_CHECK(mode == mode_sum, "embedding_bag: per_sample_weights only supported with mode='sum'. Got mode=",
                  mode == mode_mean ? "mean" : "max");
      TORCH_CHECK(sample_weights.scalar_type() == weight.scalar_type(),
                  "expected weight and per_sample_weights of one dtype, but got ", weight.scalar_type(), " and ",
                  sample_weights.scalar_type());
      TORCH_CHECK(sample_weights.dim() == 1 && sample_weights.numel() == indices.numel(),
                  "expected as many per_sample_weights as indices, but got ", sample_weights.numel(), " and ", indices.numel());
    }
  }
};

at::Tensor bag_dense_backward(const at::Tensor& grad, const at::Tensor& indices, const at::Tensor& bag_of, const at::Tensor& sizes,
                              const at::Tensor& maxima, int64_t num_weights, bool scale_grad_by_freq, int64_t mode,
                              OptionalTensor sample_weights, int64_t padding_idx) {
  if (mode == mode_max) {
    at::Tensor result = at::zeros({num_weights, grad.size(1)}, grad.options());
    const at::Tensor is_empty = sizes.narrow(0, 0, grad.size(0)).unsqueeze(1).eq(0);
    return num_weights == 0 ? result : result.scatter_add_(0, maxima.to(at::kLong), grad.masked_fill(is_empty, 0));
  }
  at::Tensor rows = grad.index_select(0, bag_of);
  if (sample_weights && sample_weights->defined()) {
    rows.mul_(sample_weights->unsqueeze(1));
  }
  if (mode == mode_mean) {
    rows.div_(sizes.index_select(0, bag_of).clamp_min_(1).unsqueeze(1));
  }
  return at::embedding_dense_backward(rows, indices, num_weights, padding_idx, scale_grad_by_freq);
}

at::Tensor bag_backward(const at::Tensor& grad, const at::Tensor& indices, const at::Tensor& offsets, const at::Tensor& bag_of,
                        const at::Tensor& sizes, const at::Tensor& maxima, int64_t num_weights, bool scale_grad_by_freq,
                        int64_t mode, bool sparse, OptionalTensor sample_weights, int64_t padding_idx) {
  check_indices(indices, "embedding_bag");
  if (sparse) {
    return at::_embedding_bag_sparse_backward(grad, indices, offsets, bag_of, sizes, num_weights, scale_grad_by_freq, mode,
                                              sample_weights, padding_idx);
  }
  return at::_embedding_bag_dense_backward(grad, indices, bag_of, sizes, maxima, num_weights, scale_grad_by_freq, mode,
                                           sample_weights, padding_idx);
}

at::Tensor bag_weights_backward(const at::Tensor& grad, const at::Tensor& weight, const at::Tensor& indices, const at::Tensor&,
                                const at::Tensor& bag_of, int64_t mode, int64_t padding_idx) {
  TORCH_CHECK(mode == mode_sum, "embedding_bag_backward: per_sample_weights only supported for mode='sum'");
  at::Tensor result = grad.index_select(0, bag_of).mul_(weight.index_select(0, indices)).sum(1);
  return padding_idx < 0 ? result : result.masked_fill_(indices.eq(padding_idx), 0);
}

struct Renorm {
  static inline Binding binding;

  static at::Tensor& inplace(at::Tensor& self, const at::Tensor& indices, double max_norm, double norm_type) {
    TORCH_CHECK(self.dim() == 2, "Expected 2-dimensional tensor, but got ", self.dim(),
                "-dimensional tensor for argument #1 'self' (while checking arguments for embedding_renorm_)");
    check_indices(indices, "embedding_renorm_");
    if (indices.numel() == 0) {
      return self;
    }
    const at::Tensor dense_indices = indices.contiguous();
    const at::Tensor table = self.contiguous();
    const at::Tensor* const inputs[] = {&dense_indices};
    if (!launch_shaped(binding, self.scalar_type(), {&table}, inputs,
                       scalars_of<"embedding_renorm_", "max_norm, norm_type">(max_norm, norm_type))) {
      return call_fallback<at::Tensor&, at::Tensor&, const at::Tensor&, double, double>(binding.functional, self, indices, max_norm,
                                                                                        norm_type);
    }
    if (!table.is_same(self)) {
      self.copy_(table);
    }
    return self;
  }
};

at::Tensor bincount(const at::Tensor& self, OptionalTensor weights, int64_t minlength) {
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  if (self.dim() == 1 && self.numel() == 0) {
    return at::zeros({minlength}, self.options().dtype(at::kLong));
  }
  TORCH_CHECK_NOT_IMPLEMENTED(c10::isIntegralType(self.scalar_type(), /*includeBool=*/false), "\"bincount\" not implemented for '",
                              c10::toString(self.scalar_type()), "'");
  TORCH_CHECK(self.dim() == 1, "bincount only supports 1-d non-negative integral inputs.");
  const bool weighted = weights && weights->defined();
  TORCH_CHECK(!weighted || (weights->dim() == 1 && weights->size(0) == self.size(0)),
              "weights should be 1-d and have the same length as input");
  const auto [least, greatest] = at::aminmax(self);
  constexpr const char* waits = "bincount (values are read on the host)";
  TORCH_CHECK(awaited<int64_t>(least, waits) >= 0, "bincount only supports 1-d non-negative integral inputs.");
  const int64_t bins = std::max(awaited<int64_t>(greatest, waits) + 1, minlength);
  const at::Tensor dense_indices = self.to(at::kLong);
  if (!weighted) {
    const at::Tensor result = at::zeros({bins}, self.options().dtype(at::kLong));
    launch_update(EmbeddingBackward::binding, each_slice(result, 0, dense_indices), result, at::Scalar(1), {Operation::add});
    return result;
  }
  const at::ScalarType dtype = weights->scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
  const at::Tensor result = at::zeros({bins}, self.options().dtype(dtype));
  launch_update(EmbeddingBackward::binding, each_slice(result, 0, dense_indices), result, weights->to(dtype), {Operation::add});
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  const char* const backward = "embedding_dense_backward";
  find_kernel(EmbeddingBackward::binding, {backward, nullptr, backward, backward});
  m.impl(backward, TORCH_FN(EmbeddingBackward::functional));
  m.impl("bincount", TORCH_FN(bincount));
  bind<EmbeddingBag>(m, {"_embedding_bag", nullptr, "_embedding_bag", "_embedding_bag"});
  m.impl("_embedding_bag_forward_only", TORCH_FN(EmbeddingBag::functional));
  m.impl("_embedding_bag_backward", TORCH_FN(bag_backward));
  m.impl("_embedding_bag_dense_backward", TORCH_FN(bag_dense_backward));
  m.impl("_embedding_bag_per_sample_weights_backward", TORCH_FN(bag_weights_backward));
  find_kernel(Renorm::binding, {"embedding_renorm_", nullptr, "embedding_renorm_", "embedding_renorm_"});
  m.impl("embedding_renorm_", TORCH_FN(Renorm::inplace));
}

}  // namespace rustdev
