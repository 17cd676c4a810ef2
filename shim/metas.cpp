// The list of metas: see metas.h.
#include "metas.h"

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/ops/_linalg_det_meta.h>
#include <ATen/ops/_linalg_slogdet_meta.h>
#include <ATen/ops/_linalg_solve_ex_meta.h>
#include <ATen/ops/_log_softmax_backward_data_meta.h>
#include <ATen/ops/_log_softmax_meta.h>
#include <ATen/ops/_softmax_backward_data_meta.h>
#include <ATen/ops/_softmax_meta.h>
#include <ATen/ops/_upsample_bicubic2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bicubic2d_aa_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_meta.h>
#include <ATen/ops/_upsample_nearest_exact1d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact1d_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_meta.h>
#include <ATen/ops/adaptive_max_pool2d_backward_meta.h>
#include <ATen/ops/adaptive_max_pool2d_meta.h>
#include <ATen/ops/adaptive_max_pool3d_backward_meta.h>
#include <ATen/ops/adaptive_max_pool3d_meta.h>
#include <ATen/ops/addmm_meta.h>
#include <ATen/ops/addmv_meta.h>
#include <ATen/ops/all_meta.h>
#include <ATen/ops/amax_meta.h>
#include <ATen/ops/amin_meta.h>
#include <ATen/ops/aminmax_meta.h>
#include <ATen/ops/any_meta.h>
#include <ATen/ops/argmax_meta.h>
#include <ATen/ops/argmin_meta.h>
#include <ATen/ops/avg_pool2d_backward_meta.h>
#include <ATen/ops/avg_pool2d_meta.h>
#include <ATen/ops/avg_pool3d_backward_meta.h>
#include <ATen/ops/avg_pool3d_meta.h>
#include <ATen/ops/baddbmm_meta.h>
#include <ATen/ops/bmm_meta.h>
#include <ATen/ops/cat_meta.h>
#include <ATen/ops/cumprod_meta.h>
#include <ATen/ops/cumsum_meta.h>
#include <ATen/ops/fractional_max_pool2d_backward_meta.h>
#include <ATen/ops/fractional_max_pool2d_meta.h>
#include <ATen/ops/fractional_max_pool3d_meta.h>
#include <ATen/ops/gather_meta.h>
#include <ATen/ops/index_add_meta.h>
#include <ATen/ops/index_copy_meta.h>
#include <ATen/ops/index_reduce_meta.h>
#include <ATen/ops/isin_meta.h>
#include <ATen/ops/linalg_cholesky_ex_meta.h>
#include <ATen/ops/linalg_cross_meta.h>
#include <ATen/ops/linalg_inv_ex_meta.h>
#include <ATen/ops/linalg_ldl_factor_ex_meta.h>
#include <ATen/ops/linalg_ldl_solve_meta.h>
#include <ATen/ops/linalg_lu_factor_ex_meta.h>
#include <ATen/ops/linalg_lu_meta.h>
#include <ATen/ops/linalg_lu_solve_meta.h>
#include <ATen/ops/linalg_qr_meta.h>
#include <ATen/ops/linalg_vector_norm_meta.h>
#include <ATen/ops/lu_unpack_meta.h>
#include <ATen/ops/max_meta.h>
#include <ATen/ops/max_pool2d_with_indices_backward_meta.h>
#include <ATen/ops/max_pool2d_with_indices_meta.h>
#include <ATen/ops/mean_meta.h>
#include <ATen/ops/min_meta.h>
#include <ATen/ops/mm_meta.h>
#include <ATen/ops/nll_loss_backward_meta.h>
#include <ATen/ops/nll_loss_forward_meta.h>
#include <ATen/ops/prod_meta.h>
#include <ATen/ops/reflection_pad1d_backward_meta.h>
#include <ATen/ops/reflection_pad1d_meta.h>
#include <ATen/ops/reflection_pad3d_backward_meta.h>
#include <ATen/ops/reflection_pad3d_meta.h>
#include <ATen/ops/renorm_meta.h>
#include <ATen/ops/replication_pad1d_backward_meta.h>
#include <ATen/ops/replication_pad1d_meta.h>
#include <ATen/ops/replication_pad2d_meta.h>
#include <ATen/ops/replication_pad3d_meta.h>
#include <ATen/ops/scatter_add_meta.h>
#include <ATen/ops/scatter_meta.h>
#include <ATen/ops/scatter_reduce_meta.h>
#include <ATen/ops/sum_meta.h>
#include <ATen/ops/triangular_solve_meta.h>
#include <ATen/ops/tril_meta.h>
#include <ATen/ops/triu_meta.h>
#include <ATen/ops/upsample_bicubic2d_backward_meta.h>
#include <ATen/ops/upsample_bicubic2d_meta.h>
#include <ATen/ops/upsample_bilinear2d_backward_meta.h>
#include <ATen/ops/upsample_bilinear2d_meta.h>
#include <ATen/ops/upsample_linear1d_backward_meta.h>
#include <ATen/ops/upsample_linear1d_meta.h>
#include <ATen/ops/upsample_nearest1d_backward_meta.h>
#include <ATen/ops/upsample_nearest1d_meta.h>
#include <ATen/ops/upsample_nearest2d_backward_meta.h>
#include <ATen/ops/upsample_nearest2d_meta.h>
#include <ATen/ops/upsample_nearest3d_backward_meta.h>
#include <ATen/ops/upsample_nearest3d_meta.h>
#include <ATen/ops/upsample_trilinear3d_backward_meta.h>
#include <ATen/ops/upsample_trilinear3d_meta.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "variants.h"

namespace rustdev {

static at::OptionalIntArrayRef meta_argument(const c10::OptionalArray<int64_t>& value) {
  return value.list ? at::OptionalIntArrayRef(*value.list) : std::nullopt;
}

namespace {

at::DimVector dense_strides(at::IntArrayRef sizes, std::optional<at::MemoryFormat> format) {
  if (format == at::MemoryFormat::ChannelsLast) {
    return at::DimVector(c10::get_channels_last_strides_2d(sizes));
  }
  if (format == at::MemoryFormat::ChannelsLast3d) {
    return at::DimVector(c10::get_channels_last_strides_3d(sizes));
  }
  return c10::contiguous_strides(sizes);
}

// Hands on what a meta says of outputs.
template <class Class>
class Recorder final : public Class {
 public:
  explicit Recorder(MetaOutputs& outputs) : outputs_(outputs) {}

  const at::Tensor& maybe_get_output(int64_t index) override { return outputs_.get(index); }
  void set_output_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options) override {
    set_output_raw_strided(index, sizes, strides, options);
  }
  void set_output_raw_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options) override {
    const at::DimVector wanted = strides.empty() ? dense_strides(sizes, options.memory_format_opt()) : at::DimVector(strides);
    outputs_.set(index, sizes, wanted, c10::typeMetaToScalarType(options.dtype()));
  }

 private:
  MetaOutputs& outputs_;
};

template <class T>
decltype(auto) argument(const c10::IValue& value) {
  if constexpr (std::is_same_v<T, const at::Tensor&>) {
    return value.toTensor();
  } else {
    c10::IValue copy(value);  // which is used up
    return c10::impl::ivalue_to_arg<typename c10::impl::decay_if_not_tensor<schema_type<T>>::type, false>::call(copy);
  }
}

template <class Class, class Result, class... Args, size_t... index>
void run(Result (Class::*meta)(Args...), const c10::IValue* arguments, MetaOutputs& outputs, std::index_sequence<index...>) {
  Recorder<Class> recorder(outputs);
  (recorder.*meta)(meta_argument(argument<Args>(arguments[index]))...);
}

template <class Class, class Result, class... Args>
void run(Result (Class::*meta)(Args...), const c10::IValue* arguments, MetaOutputs& outputs) {
  run(meta, arguments, outputs, std::index_sequence_for<Args...>());
}

template <class Class>
void run_meta(const c10::IValue* arguments, MetaOutputs& outputs) {
  run(&Class::meta, arguments, outputs);
}

// A meta, by the operator's name and its overload joined by an underline.
#define META(name) {#name, &run_meta<at::meta::structured_##name>}

const std::unordered_map<std::string, Meta>& metas() {
  static const auto* const found = new std::unordered_map<std::string, Meta>{
      META(adaptive_max_pool2d),
      META(adaptive_max_pool2d_backward),
      META(adaptive_max_pool3d),
      META(adaptive_max_pool3d_backward),
      META(addmm),
      META(addmv),
      META(all),
      META(all_dim),
      META(all_dims),
      META(amax),
      META(amin),
      META(aminmax),
      META(any),
      META(any_dim),
      META(any_dims),
      META(argmax),
      META(argmin),
      META(avg_pool2d),
      META(avg_pool2d_backward),
      META(avg_pool3d),
      META(avg_pool3d_backward),
      META(baddbmm),
      META(bmm),
      META(cat),
      META(cumprod),
      META(cumsum),
      META(fractional_max_pool2d),
      META(fractional_max_pool2d_backward),
      META(fractional_max_pool3d),
      META(gather),
      META(index_add),
      META(index_copy),
      META(index_reduce),
      META(isin_Scalar_Tensor),
      META(isin_Tensor_Tensor),
      META(linalg_cholesky_ex),
      META(linalg_cross),
      META(_linalg_det),
      META(linalg_inv_ex),
      META(linalg_ldl_factor_ex),
      META(linalg_ldl_solve),
      META(linalg_lu),
      META(linalg_lu_factor_ex),
      META(linalg_lu_solve),
      META(linalg_qr),
      META(_linalg_slogdet),
      META(_linalg_solve_ex),
      META(linalg_vector_norm),
      META(_log_softmax),
      META(_log_softmax_backward_data),
      META(lu_unpack),
      META(max_dim),
      META(max_pool2d_with_indices),
      META(max_pool2d_with_indices_backward),
      META(mean_dim),
      META(min_dim),
      META(mm),
      META(nll_loss_backward),
      META(nll_loss_forward),
      META(prod_dim_int),
      META(reflection_pad1d),
      META(reflection_pad1d_backward),
      META(reflection_pad3d),
      META(reflection_pad3d_backward),
      META(renorm),
      META(replication_pad1d),
      META(replication_pad1d_backward),
      META(replication_pad2d),
      META(replication_pad3d),
      META(scatter_add),
      META(scatter_reduce),
      META(scatter_reduce_two),
      META(scatter_src),
      META(scatter_value),
      META(scatter_value_reduce),
      META(_softmax),
      META(_softmax_backward_data),
      META(sum_dim_IntList),
      META(triangular_solve),
      META(tril),
      META(triu),
      META(upsample_bicubic2d),
      META(_upsample_bicubic2d_aa),
      META(_upsample_bicubic2d_aa_backward),
      META(upsample_bicubic2d_backward),
      META(upsample_bilinear2d),
      META(_upsample_bilinear2d_aa),
      META(_upsample_bilinear2d_aa_backward),
      META(upsample_bilinear2d_backward),
      META(upsample_linear1d),
      META(upsample_linear1d_backward),
      META(upsample_nearest1d),
      META(upsample_nearest1d_backward),
      META(upsample_nearest2d),
      META(upsample_nearest2d_backward),
      META(upsample_nearest3d),
      META(upsample_nearest3d_backward),
      META(_upsample_nearest_exact1d),
      META(_upsample_nearest_exact1d_backward),
      META(_upsample_nearest_exact2d),
      META(_upsample_nearest_exact2d_backward),
      META(_upsample_nearest_exact3d),
      META(_upsample_nearest_exact3d_backward),
      META(upsample_trilinear3d),
      META(upsample_trilinear3d_backward),
  };
  return *found;
}

#undef META

}  // namespace

Meta find_meta(const c10::OperatorName& name) {
  std::string key = name.name.substr(name.name.find("::") + 2);
  if (!name.overload_name.empty()) {
    key += "_" + name.overload_name;
  }
  const auto found = metas().find(key);
  return found == metas().end() ? nullptr : found->second;
}

}  // namespace rustdev
