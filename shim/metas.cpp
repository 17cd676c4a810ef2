// PyTorch's structured metas for boxed arguments. build_shim.py generates their list and includes, generated_metas.h.
#include <ATen/core/boxing/KernelFunction.h>

#include "generated_metas.h"
#include "operator_call.h"

namespace rustdev {

// Maps a meta's parameter type to the type in the operator's schema.
template <class T>
struct SchemaType {
  using type = T;
};
template <>
struct SchemaType<at::OptionalScalarRef> {
  using type = const std::optional<at::Scalar>&;
};
template <>
struct SchemaType<at::OptionalTensorRef> {
  using type = const std::optional<at::Tensor>&;
};
template <class T>
using schema_type = typename SchemaType<T>::type;

[[maybe_unused]] static at::OptionalScalarRef meta_argument(const std::optional<at::Scalar>& value) {
  return value ? at::OptionalScalarRef(*value) : at::OptionalScalarRef();
}
static at::OptionalTensorRef meta_argument(const std::optional<at::Tensor>& value) {
  return value && value->defined() ? at::OptionalTensorRef(*value) : at::OptionalTensorRef();
}
template <class T>
const T& meta_argument(const T& value) {
  return value;  // NOLINT(bugprone-return-const-ref-from-parameter): the arguments of a call, which outlive it
}

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

// Forwards a meta's outputs to MetaOutputs.
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
    c10::IValue copy(value);  // consumed by the conversion
    return c10::impl::ivalue_to_arg<typename c10::impl::decay_if_not_tensor<schema_type<T>>::type, false>::call(copy);
  }
}

template <class Class, class Result, class... Args>
void run(Result (Class::*meta)(Args...), const c10::IValue* arguments, MetaOutputs& outputs) {
  Recorder<Class> recorder(outputs);
  [&]<size_t... index>(std::index_sequence<index...>) {
    (recorder.*meta)(meta_argument(argument<Args>(arguments[index]))...);
  }(std::index_sequence_for<Args...>());
}

template <class Class>
void run_meta(const c10::IValue* arguments, MetaOutputs& outputs) {
  run(&Class::meta, arguments, outputs);
}

}  // namespace

Meta find_meta(std::string_view name) {
#define META(name, op) {name, &run_meta<at::meta::structured_##op>},
  static const auto* const metas = new std::unordered_map<std::string_view, Meta>{RUSTDEV_META_LIST(META)};
#undef META
  return metas->at(name);
}

}  // namespace rustdev
