// Arguments by name, and what guards are made of: see fallback_guard.h.
#include "ops/fallback_guard.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/aminmax.h>
#include <c10/util/Exception.h>

#include <limits>
#include <string_view>
#include <unordered_set>

namespace rustdev {

c10::IValue* Arguments::find(const char* name) const {
  const std::optional<int> index = schema_.argumentIndexWithName(name);
  if (!index) {
    return nullptr;
  }
  c10::IValue& value = stack_[first_ + static_cast<size_t>(*index)];
  return value.isNone() ? nullptr : &value;
}

at::Tensor Arguments::tensor(const char* name) const {
  const c10::IValue* value = find(name);
  return value != nullptr && value->isTensor() ? value->toTensor() : at::Tensor();
}

std::vector<at::Tensor> Arguments::tensors(const char* name) const {
  const c10::IValue* value = find(name);
  return value != nullptr && value->isTensorList() ? value->toTensorVector() : std::vector<at::Tensor>();
}

std::vector<int64_t> Arguments::integers(const char* name) const {
  const c10::IValue* value = find(name);
  return value != nullptr && value->isIntList() ? value->toIntVector() : std::vector<int64_t>();
}

std::optional<int64_t> Arguments::integer(const char* name) const {
  const c10::IValue* value = find(name);
  return value != nullptr && value->isInt() ? std::optional<int64_t>(value->toInt()) : std::nullopt;
}

std::optional<double> Arguments::number(const char* name) const {
  const c10::IValue* value = find(name);
  return value != nullptr && value->isDouble() ? std::optional<double>(value->toDouble()) : std::nullopt;
}

bool Arguments::flag(const char* name) const {
  const c10::IValue* value = find(name);
  return value != nullptr && value->isBool() && value->toBool();
}

std::string Arguments::word(const char* name) const {
  const c10::IValue* value = find(name);
  return value != nullptr && value->isString() ? value->toStringRef() : std::string();
}

std::vector<at::Tensor> Arguments::written() const {
  std::vector<at::Tensor> found;
  for (const c10::Argument& argument : schema_.arguments()) {
    if (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) {
      found.push_back(tensor(argument.name().c_str()));
    }
  }
  return found;
}

std::vector<int64_t> Arguments::lengths(const char* name) const {
  const at::Tensor given = tensor(name);
  if (!given.defined()) {
    return integers(name);
  }
  const at::Tensor values = given.to(at::kLong).contiguous();
  const auto* const data = values.const_data_ptr<int64_t>();
  return {data, data + values.numel()};
}

void Arguments::make_contiguous(const char* name) const {
  c10::IValue* value = find(name);
  if (value != nullptr && value->isTensor() && !value->toTensor().is_contiguous()) {
    *value = value->toTensor().contiguous();
  }
}

void Arguments::replace(const char* name, const at::Tensor& tensor) const { *find(name) = tensor; }

Guard find_guard(const std::string& name) {
  static const Guards* const guards = [] {
    auto* const made = new Guards;
    add_pool_guards(*made);
    add_layer_guards(*made);
    add_sequence_guards(*made);
    add_math_guards(*made);
    return made;
  }();
  const auto found = guards->find(name);
  return found == guards->end() ? nullptr : found->second;
}

bool writes_contiguously(const std::string& name) {
  static const std::unordered_set<std::string_view> names = {
      "aten::adaptive_max_pool3d",
      "aten::adaptive_max_pool3d_backward",
      "aten::avg_pool3d",
      "aten::avg_pool3d_backward",
      "aten::fractional_max_pool2d",
      "aten::fractional_max_pool2d_backward",
      "aten::fractional_max_pool3d",
      "aten::fractional_max_pool3d_backward",
      "aten::linalg_lu",
      "aten::lu_unpack",
      "aten::max_pool3d_with_indices",
      "aten::max_pool3d_with_indices_backward",
      "aten::narrow_copy",
      "aten::upsample_bicubic2d_backward",
  };
  return names.find(name) != names.end();
}

void check_results_apart(const Arguments& args) {
  for (const at::Tensor& result : args.written()) {
    TORCH_CHECK(!result.defined() ||
                    static_cast<int64_t>(at::detail::computeStorageNbytes(result.sizes(), result.strides(), 1)) >= result.numel(),
                args.operator_name(), ": more than one element of the written-to tensor refers to a single memory location");
  }
}

void check_sizes(const Arguments& args, const char* name, at::IntArrayRef expected) {
  const at::Tensor given = args.tensor(name);
  TORCH_CHECK(!given.defined() || given.sizes() == expected, args.operator_name(), ": expected ", name, " to have size ", expected,
              ", but got ", given.sizes());
}

void check_dim(const Arguments& args, const char* name, int64_t expected) {
  const at::Tensor given = args.tensor(name);
  TORCH_CHECK(!given.defined() || given.dim() == expected, args.operator_name(), ": expected ", name, " to have ", expected,
              " dimensions, but got ", given.dim());
}

void check_length(const Arguments& args, const char* name, size_t expected) {
  const size_t given = args.integers(name).size();
  TORCH_CHECK(given == expected, args.operator_name(), ": expected ", expected, " integers in ", name, ", but got ", given);
}

void check_numel(const Arguments& args, const char* name, int64_t expected) {
  const at::Tensor given = args.tensor(name);
  TORCH_CHECK(!given.defined() || given.numel() == expected, args.operator_name(), ": expected ", name, " to have ", expected,
              " elements, but got ", given.numel());
}

void check_same_dtype(const Arguments& args, const char* name, const char* other) {
  const at::Tensor one = args.tensor(name);
  const at::Tensor two = args.tensor(other);
  TORCH_CHECK(!one.defined() || !two.defined() || one.scalar_type() == two.scalar_type(), args.operator_name(), ": expected ", name,
              " and ", other, " to have the same dtype, but got ", one.scalar_type(), " and ", two.scalar_type());
}

void check_range(const Arguments& args, const char* name, const at::Tensor& values, int64_t low, int64_t high) {
  // Indices of another dtype the kernels refuse.
  if (!args.has_values() || !values.defined() || values.numel() == 0 ||
      !at::isIntegralType(values.scalar_type(), /*includeBool=*/false)) {
    return;
  }
  const auto [least, greatest] = at::aminmax(values);
  for (const int64_t value : {least.item<int64_t>(), greatest.item<int64_t>()}) {
    TORCH_CHECK_INDEX(value >= low && value < high, args.operator_name(), ": ", name, " has the value ", value,
                      ", which is out of bounds: expected at least ", low, " and less than ", high);
  }
}

void check_small(const Arguments& args, const char* name) {
  constexpr int64_t limit = std::numeric_limits<int32_t>::max();
  for (const int64_t value : args.integers(name)) {
    TORCH_CHECK(value >= -limit && value <= limit, args.operator_name(), ": ", name, " has ", value, ", which is too large");
  }
}

}  // namespace rustdev
