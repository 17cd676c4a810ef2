// scaled_dot_product_attention, forward and backward: kernels of our own, or PyTorch's CPU flash attention as tasks on the stream,
// cut along the batch or the heads, where that is faster. Memory is linear in the length. Dropout, nested tensors and masks with
// gradients take PyTorch's own composition of products and softmax.
#include <ATen/OpMathType.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/cpu/Utils.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/aten_task.h"
#include "ops/factory.h"
#include "ops/tier.h"
#include "structured.h"

namespace rustdev {
namespace {

using OptionalTensor = const std::optional<at::Tensor>&;
using Pair = std::tuple<at::Tensor, at::Tensor>;
using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

constexpr double nanoseconds_per_product = 0.03;

// How a call is cut: along which dimension of query, key and value [batch, heads, length, size], and into how many parts. Heads
// that share keys stay together.
struct Cut {
  Cut(const at::Tensor& query, const at::Tensor& key, double factor) {
    const bool shares_keys = query.size(1) != key.size(1);
    dim = shares_keys || query.size(0) >= query.size(1) ? 0 : 1;
    cost = static_cast<uint64_t>(factor * static_cast<double>(query.numel()) * static_cast<double>(key.size(2)) *
                                 nanoseconds_per_product) +
           1000;
    parts = std::min(parts_worth(cost), query.size(dim));
  }

  // One part of a tensor; of a mask, where it has a part for each, and of nothing nothing.
  at::Tensor part(const at::Tensor& tensor, int64_t index) const {
    if (!tensor.defined() || parts == 1 || tensor.dim() != 4 || tensor.size(dim) == 1) {
      return tensor;
    }
    return part_of(tensor, dim, index, parts);
  }

  int64_t dim;
  int64_t parts;
  uint64_t cost;
};

constexpr const char* name = "scaled_dot_product_attention";

void check_devices(std::initializer_list<at::Tensor> tensors) {
  std::optional<at::Device> device;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) {
      c10::impl::check_and_update_common_device(device, tensor, name, "an operand");
    }
  }
}

void check_sizes(const char* what, const at::Tensor& tensor, at::IntArrayRef sizes) {
  TORCH_CHECK(tensor.sizes() == sizes, name, ": expected ", what, " to have size ", sizes, ", but got ", tensor.sizes());
}

// What PyTorch's kernels rely on and do not check.
void check_operands(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  for (const at::Tensor& tensor : {query, key, value}) {
    TORCH_CHECK(tensor.dim() == 4, name, ": expected operands of 4 dimensions, but got ", tensor.dim());
    TORCH_CHECK(tensor.numel() > 0, name, ": an operand has no elements");
    TORCH_CHECK(tensor.scalar_type() == query.scalar_type(), name, ": expected operands of one dtype, but got ",
                query.scalar_type(), " and ", tensor.scalar_type());
  }
  check_sizes("key", key, {query.size(0), key.size(1), key.size(2), query.size(3)});
  check_sizes("value", value, {query.size(0), key.size(1), key.size(2), query.size(3)});
  TORCH_CHECK(query.size(1) % key.size(1) == 0, name, ": expected the ", query.size(1), " heads of query to be a multiple of the ",
              key.size(1), " of key");
}

// Whether PyTorch's kernel is faster: its products of 16 bit floats use AMX.
bool takes_library(const at::Tensor& query) {
  static const bool has_amx = at::cpu::get_cpu_capabilities()["amx_tile"].toBool();
  return has_amx && at::isReducedFloatingType(query.scalar_type());
}

// The mask for each score, of the dtype that these are computed in; nothing where there is none.
at::Tensor expanded_mask(const at::Tensor& mask, const at::Tensor& query, const at::Tensor& key) {
  if (!mask.defined()) {
    return mask;
  }
  TORCH_CHECK(mask.dim() == 2 || mask.dim() == 4, name, ": expected a mask of 2 or 4 dimensions, but got ", mask.dim());
  const at::Tensor scores = mask.to(at::toOpMathType(query.scalar_type())).resolve_neg();
  return scores.expand({query.size(0), query.size(1), query.size(2), key.size(2)});
}

// Launches a kernel over what is defined.
void launch(const Binding& binding, std::initializer_list<at::Tensor> outputs, std::initializer_list<at::Tensor> inputs,
            bool is_causal, std::optional<double> scale) {
  Launch launch;
  for (const at::Tensor& output : outputs) {
    launch.input(output);
  }
  launch.finish_outputs();
  for (const at::Tensor& input : inputs) {
    if (input.defined()) {
      launch.input(input);
    }
  }
  add_scalar(launch, is_causal);
  add_scalar(launch, scale);
  const at::Tensor& output = *outputs.begin();
  launch.run_or_throw(binding.op, static_cast<int32_t>(output.scalar_type()), output.device().index());
}

// A new tensor of sizes [batch, heads, length, ...] with the memory of [batch, length, heads, ...], as PyTorch's kernels have it.
at::Tensor new_length_first(at::IntArrayRef sizes, at::ScalarType dtype, at::Device device) {
  at::DimVector length_first(sizes);
  std::swap(length_first[1], length_first[2]);
  return new_empty(length_first, dtype, device).transpose(1, 2);
}

std::optional<at::Tensor> as_optional(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
}

Pair attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double dropout, bool is_causal,
               OptionalTensor optional_mask, std::optional<double> scale) {
  TORCH_CHECK(dropout == 0.0, name, ": expected no dropout, but got ", dropout);
  const at::Tensor mask = given(optional_mask);
  check_devices({query, key, value, mask});
  check_operands(query, key, value);
  const at::Tensor output = at::empty_like(query);
  const at::Tensor logsumexp = new_length_first(query.sizes().slice(0, 3), at::toOpMathType(query.scalar_type()), query.device());
  if (!takes_library(query)) {
    const Binding& binding = binding_of<"_scaled_dot_product_flash_attention_for_cpu">;
    const at::Tensor rows = output.stride(3) == 1 ? output : at::empty_like(output, at::MemoryFormat::Contiguous);
    launch(binding, {rows, logsumexp},
           {query.resolve_neg(), key.resolve_neg(), value.resolve_neg(), expanded_mask(mask, query, key)}, is_causal, scale);
    if (!rows.is_same(output)) {
      output.copy_(rows);
    }
    return {output, logsumexp};
  }
  const Cut cut(query, key, 2.0);
  auto work = [=, q = borrow(query), k = borrow(key), v = borrow(value), m = borrow(mask), out = borrow(output),
               sums = borrow(logsumexp)] {
    parallel_aten(cut.parts, cut.cost, [&](int64_t part) {
      const auto [found, found_sums] = at::_scaled_dot_product_flash_attention_for_cpu(
          cut.part(q, part), cut.part(k, part), cut.part(v, part), dropout, is_causal, as_optional(cut.part(m, part)), scale);
      cut.part(out, part).copy_(found);
      cut.part(sums.unsqueeze(-1), part).copy_(found_sums.unsqueeze(-1));
    });
  };
  submit_aten(name, {output, logsumexp}, {query, key, value, mask}, cut.cost, std::move(work));
  return {output, logsumexp};
}

Triple attention_backward(const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const at::Tensor& output, const at::Tensor& logsumexp, double dropout, bool is_causal,
                          OptionalTensor optional_mask, std::optional<double> scale) {
  const at::Tensor mask = given(optional_mask);
  check_devices({grad, query, key, value, output, logsumexp, mask});
  check_operands(query, key, value);
  check_sizes("grad_out", grad, {query.size(0), query.size(1), query.size(2), value.size(3)});
  check_sizes("out", output, grad.sizes());
  check_sizes("logsumexp", logsumexp, query.sizes().slice(0, 3));
  const auto like = [](const at::Tensor& tensor) {
    return new_length_first(tensor.sizes(), tensor.scalar_type(), tensor.device());
  };
  const Triple gradients{like(query), like(key), like(value)};
  const auto& [grad_query, grad_key, grad_value] = gradients;
  if (!takes_library(query)) {
    const Binding& binding = binding_of<"_scaled_dot_product_flash_attention_for_cpu_backward">;
    launch(binding, {grad_query, grad_key, grad_value},
           {grad.resolve_neg(), query.resolve_neg(), key.resolve_neg(), value.resolve_neg(), output.resolve_neg(), logsumexp,
            expanded_mask(mask, query, key)},
           is_causal, scale);
    return gradients;
  }
  const Cut cut(query, key, 5.0);
  auto work = [=, g = borrow(grad), q = borrow(query), k = borrow(key), v = borrow(value), o = borrow(output),
               sums = borrow(logsumexp), m = borrow(mask), gq = borrow(grad_query), gk = borrow(grad_key),
               gv = borrow(grad_value)] {
    parallel_aten(cut.parts, cut.cost, [&](int64_t part) {
      const auto [found_query, found_key, found_value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          cut.part(g, part), cut.part(q, part), cut.part(k, part), cut.part(v, part), cut.part(o, part),
          cut.part(sums.unsqueeze(-1), part).squeeze(-1), dropout, is_causal, as_optional(cut.part(m, part)), scale);
      cut.part(gq, part).copy_(found_query);
      cut.part(gk, part).copy_(found_key);
      cut.part(gv, part).copy_(found_value);
    });
  };
  submit_aten("scaled_dot_product_attention_backward", {grad_query, grad_key, grad_value},
              {grad, query, key, value, output, logsumexp, mask}, cut.cost, std::move(work));
  return gradients;
}

// The kernels are the CPU's, and so is what they take; nothing of what has no elements.
int64_t choose(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& mask,
               double dropout, bool is_causal, std::optional<double> scale, bool enable_gqa) {
  if (query.sym_numel() == 0 || key.sym_numel() == 0 || value.sym_numel() == 0) {
    return static_cast<int64_t>(sdp::SDPBackend::math);
  }
  return at::native::_fused_sdp_choice_cpp(query, key, value, mask, dropout, is_causal, scale, enable_gqa);
}

}  // namespace
}  // namespace rustdev

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &rustdev::choose)

}  // namespace at::native

namespace rustdev {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  Tier aten(m, "aten");
  aten.impl("_fused_sdp_choice", TORCH_FN(choose));
  m.impl("_scaled_dot_product_flash_attention_for_cpu", TORCH_FN(attention));
  m.impl("_scaled_dot_product_flash_attention_for_cpu_backward", TORCH_FN(attention_backward));
}

}  // namespace rustdev
