// Guards of losses' backwards, attention, normalisation and quantisation: see fallback_guard.h.
#include <ATen/core/Reduction.h>
#include <ATen/native/Resize.h>
#include <c10/core/WrapDimMinimal.h>

#include <cstdint>

#include "ops/fallback_guard.h"

namespace rustdev {
namespace {

// One gradient of the loss, or one for each row where nothing was reduced.
void check_margin_backward(const Arguments& args) {
  const at::Tensor self = args.tensor("self");
  const bool rows = args.integer("reduction") == at::Reduction::None && self.dim() > 1;
  check_numel(args, "grad_output", rows ? self.size(0) : 1);
}

// Masks of queries by keys and of batches by keys are for a score of four dimensions.
void check_masked_softmax(const Arguments& args) {
  if (args.integer("mask_type").value_or(2) != 2) {
    check_dim(args, "self", 4);
    check_dim(args, "mask", 2);
  }
}

void check_masked_softmax_backward(const Arguments& args) {
  const at::Tensor grad = args.tensor("grad_output");
  check_sizes(args, "output", grad.sizes());
  check_sizes(args, "mask", grad.sizes());
  check_same_dtype(args, "output", "grad_output");
}

// ---- attention ----

void check_heads(const Arguments& args, const char* name) {
  TORCH_CHECK(args.integer(name).value_or(0) > 0, args.operator_name(), ": expected ", name, " to be greater than 0");
}

void check_multi_head_attention(const Arguments& args) {
  check_heads(args, "num_head");
  check_same_dtype(args, "qkv_bias", "query");
}

void check_encoder_layer(const Arguments& args) {
  check_heads(args, "num_heads");
  check_same_dtype(args, "qkv_bias", "src");
}

void check_rescale(const Arguments& args) {
  check_heads(args, "num_heads");
  check_dim(args, "qkv", 3);
  check_same_dtype(args, "qkv_bias", "qkv");
  args.make_contiguous("qkv_bias");
  const at::Tensor qkv = args.tensor("qkv");
  check_numel(args, "qkv_bias", qkv.size(2));
  TORCH_CHECK(qkv.numel() > 0 && qkv.size(2) % (3 * *args.integer("num_heads")) == 0, args.operator_name(),
              ": expected qkv to have elements and a last dimension of 3 parts for each head, but got ", qkv.sizes());
}

// ---- normalisation ----

// One of each for every channel.
void check_batch_norm(const Arguments& args) {
  const at::Tensor input = args.tensor("input");
  TORCH_CHECK(input.dim() >= 2, args.operator_name(), ": expected input to have at least 2 dimensions, but got ", input.dim());
  for (const char* const name : {"weight", "bias", "running_mean", "running_var"}) {
    check_numel(args, name, input.size(1));
  }
  TORCH_CHECK(args.flag("training") || args.tensor("running_mean").defined(), args.operator_name(),
              ": expected running_mean and running_var where training is False");
}

void check_weight_norm(const Arguments& args, const char* v) {
  const at::Tensor weight = args.tensor(v);
  TORCH_CHECK(weight.dim() > 0, args.operator_name(), ": expected ", v, " to have dimensions");
  const int64_t dim = args.integer("dim").value_or(0);
  TORCH_CHECK(dim == 0 || dim == weight.dim() - 1, args.operator_name(), ": expected dim to be 0 or ", weight.dim() - 1,
              ", but got ", dim);
  for (const char* const name : {"g", "saved_g", "saved_norms"}) {
    check_numel(args, name, weight.size(dim));
  }
}

void check_weight_norm_forward(const Arguments& args) {
  check_weight_norm(args, "v");
  check_same_dtype(args, "g", "v");
}

void check_weight_norm_backward(const Arguments& args) {
  check_weight_norm(args, "saved_v");
  check_sizes(args, "grad_w", args.tensor("saved_v").sizes());
  check_same_dtype(args, "grad_w", "saved_v");
  check_same_dtype(args, "saved_g", "saved_v");
}

void check_batch_norm_statistics(const Arguments& args) {
  const at::Tensor input = args.tensor("input");
  TORCH_CHECK(input.dim() >= 2, args.operator_name(), ": expected input to have 2 dimensions or more, but got ", input.dim());
  check_numel(args, "running_mean", input.size(1));
  check_numel(args, "running_var", input.size(1));
}

// ---- quantisation ----

// Ranges of the rows that are all empty are made by the kernel.
void check_observer(const Arguments& args) {
  const at::Tensor self = args.tensor("self");
  const bool rows = args.flag("per_row_fake_quant");
  if (rows && args.tensor("running_min").numel() == 0) {
    return;
  }
  int64_t count = 1;
  if (rows) {
    count = self.size(c10::maybe_wrap_dim(args.integer("ch_axis").value_or(0), self.dim()));
  }
  for (const char* const name : {"running_min", "running_max", "scale", "zero_point"}) {
    check_numel(args, name, count);
  }
}

void check_int4_weight(const Arguments& args) {
  const at::Tensor scales = args.tensor("qScaleAndZeros");
  const int64_t group = args.integer("qGroupSize").value_or(0);
  TORCH_CHECK(
      group > 0 && args.tensor("self").dim() == 2 && scales.dim() == 3 && scales.size(0) == args.tensor("self").size(1) / group,
      args.operator_name(), ": qScaleAndZeros of size ", scales.sizes(), " does not fit self of size ", args.tensor("self").sizes(),
      " in groups of ", group);
}

void check_four_bits(const Arguments& args) {
  for (const char* const name : {"block_size", "in_features", "out_features"}) {
    TORCH_CHECK(args.integer(name).value_or(0) > 0, args.operator_name(), ": expected ", name, " to be greater than 0");
    TORCH_CHECK(*args.integer(name) <= INT32_MAX, args.operator_name(), ": ", name, " is too large");
  }
}

void check_four_bit_product(const Arguments& args) {
  check_four_bits(args);
  args.make_contiguous("inp");
  args.make_contiguous("packed_weights");
  check_dim(args, "inp", 2);
  check_sizes(args, "inp", {args.tensor("inp").size(0), *args.integer("in_features")});
  const at::Tensor packed = args.tensor("packed_weights");
  const int64_t weights = *args.integer("in_features") * *args.integer("out_features");
  TORCH_CHECK(packed.numel() * packed.element_size() >= weights / 2, args.operator_name(), ": packed_weights of size ",
              packed.sizes(), " are too few for ", weights, " weights");
}

// The kernel of training writes as many elements as self has into an output that it does not resize, whatever its strides.
void check_rrelu(const Arguments& args) {
  if (!args.flag("training")) {
    return;
  }
  const at::Tensor out = args.tensor("out");
  if (out.defined()) {
    at::native::resize_output(out, args.tensor("self").sizes());
  }
  check_results_apart(args);
}

}  // namespace

void add_layer_guards(Guards& guards) {
  for (const char* const name : {"native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update"}) {
    guards[std::string("aten::") + name] = &check_batch_norm;
  }
  guards["aten::multi_margin_loss_backward"] = &check_margin_backward;
  guards["aten::multilabel_margin_loss_backward"] = &check_margin_backward;
  guards["aten::_masked_softmax"] = &check_masked_softmax;
  guards["aten::_masked_softmax_backward"] = &check_masked_softmax_backward;
  guards["aten::_native_multi_head_attention"] = &check_multi_head_attention;
  guards["aten::_transformer_encoder_layer_fwd"] = &check_encoder_layer;
  guards["aten::_transform_bias_rescale_qkv"] = &check_rescale;
  guards["aten::_weight_norm_interface"] = &check_weight_norm_forward;
  guards["aten::_weight_norm_interface_backward"] = &check_weight_norm_backward;
  guards["aten::batch_norm_update_stats"] = &check_batch_norm_statistics;
  guards["aten::_fused_moving_avg_obs_fq_helper"] = &check_observer;
  guards["aten::_weight_int4pack_mm_for_cpu"] = &check_int4_weight;
  guards["aten::_dyn_quant_pack_4bit_weight"] = &check_four_bits;
  guards["aten::_dyn_quant_matmul_4bit"] = &check_four_bit_product;
  guards["aten::rrelu_with_noise"] = &check_rrelu;
  guards["aten::rrelu_with_noise_"] = &check_rrelu;
}

}  // namespace rustdev
