// Search in sorted elements (searchsorted, bucketize, isin), and unique in its forms.
#include <ATen/native/BucketizationUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/isin_meta.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/sort.h>

#include "awaited.h"
#include "ops/factory.h"
#include "ops/lines.h"

namespace rustdev {
namespace {

using Side = std::optional<std::string_view>;
using OptionalTensor = const std::optional<at::Tensor>&;
using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

struct Searchsorted {
  static inline Binding binding;

  static at::Tensor& out(const at::Tensor& sorted, const at::Tensor& self, bool out_int32, bool right, Side side,
                         OptionalTensor given_sorter, at::Tensor& result) {
    const at::Tensor sorter = given(given_sorter);
    at::native::searchsorted_pre_check(sorted, self, result, out_int32, right, side, sorter);
    at::native::resize_output(result, self.sizes());
    if (self.numel() == 0) {
      return result;
    }
    if (sorted.numel() == 0) {
      return result.zero_();
    }
    at::Tensor values, boundaries, order;
    at::native::searchsorted_maybe_trim_input_tensors(values, boundaries, order, self, sorted, sorter);
    const auto chosen = [](const at::Tensor& trimmed, const at::Tensor& raw) { return trimmed.defined() ? trimmed : raw; };
    values = chosen(values, self);
    boundaries = chosen(boundaries, sorted);
    order = chosen(order, sorter);
    const at::Tensor target = result.contiguous();
    c10::SmallVector<const at::Tensor*, 3> inputs{&boundaries, &values};
    if (order.defined()) {
      inputs.push_back(&order);
    }
    if (!launch_shaped(binding, boundaries.scalar_type(), {&target}, inputs, {side ? *side == "right" : right})) {
      return call_fallback<at::Tensor&, const at::Tensor&, const at::Tensor&, bool, bool, Side, OptionalTensor, at::Tensor&>(
          binding.out, sorted, self, out_int32, right, side, given_sorter, result);
    }
    if (!target.is_same(result)) {
      result.copy_(target);
    }
    return result;
  }

  static at::Tensor functional(const at::Tensor& sorted, const at::Tensor& self, bool out_int32, bool right, Side side,
                               OptionalTensor sorter) {
    at::Tensor result = new_empty(self.sizes(), out_int32 ? at::kInt : at::kLong, self.device());
    return out(sorted, self, out_int32, right, side, sorter, result);
  }

  static at::Tensor& scalar_out(const at::Tensor& sorted, const at::Scalar& self, bool out_int32, bool right, Side side,
                                OptionalTensor sorter, at::Tensor& result) {
    return out(sorted, at::native::searchsorted_scalar_tensor(self, sorted.device()), out_int32, right, side, sorter, result);
  }

  static at::Tensor scalar(const at::Tensor& sorted, const at::Scalar& self, bool out_int32, bool right, Side side,
                           OptionalTensor sorter) {
    return functional(sorted, at::native::searchsorted_scalar_tensor(self, sorted.device()), out_int32, right, side, sorter);
  }
};

at::Tensor& bucketize_out(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32, bool right, at::Tensor& result) {
  TORCH_CHECK(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(", boundaries.dim(), ")");
  return Searchsorted::out(boundaries, self, out_int32, right, std::nullopt, std::nullopt, result);
}

at::Tensor bucketize_tensor(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32, bool right) {
  at::Tensor result = new_empty(self.sizes(), out_int32 ? at::kInt : at::kLong, boundaries.device());
  return bucketize_out(self, boundaries, out_int32, right, result);
}

at::Tensor bucketize_scalar(const at::Scalar& self, const at::Tensor& boundaries, bool out_int32, bool right) {
  return bucketize_tensor(at::native::searchsorted_scalar_tensor(self, boundaries.device()), boundaries, out_int32, right);
}

struct IsinRule {
  static constexpr bool has_inplace = false;

  template <class Op>
  static bool launch(const Binding& binding, Op& op, const at::Tensor& elements, const at::Tensor& others, bool, bool invert) {
    const at::Tensor& out = op.maybe_get_output(0);
    if (out.numel() == 0) {
      return true;
    }
    if (others.numel() == 0) {
      out.fill_(invert);
      return true;
    }
    const at::ScalarType dtype = at::result_type(elements, others);
    if (!takes_dtype(binding, dtype)) {
      return false;
    }
    const at::Tensor line = elements.to(dtype).reshape({-1}).contiguous();
    const at::Tensor sorted = std::get<0>(at::sort(others.to(dtype).reshape({-1}), std::optional<bool>(true), 0));
    const at::Tensor target = new_empty(line.sizes(), at::kBool, out.device());
    const at::Tensor* const inputs[] = {&line, &sorted};
    launch_shaped_or_throw(binding, dtype, {&target}, inputs, {invert});
    out.copy_(target.view(out.sizes()));
    return true;
  }
};

using Isin = Variants<at::meta::structured_isin_Tensor_Tensor, IsinRule>;

at::Tensor isin_scalar(const at::Tensor& elements, const at::Scalar& other, bool, bool invert) {
  return invert ? elements.ne(other) : elements.eq(other);
}

at::Tensor scalar_isin(const at::Scalar& element, const at::Tensor& others, bool assume_unique, bool invert) {
  return Isin::functional(at::native::searchsorted_scalar_tensor(element, others.device()), others, assume_unique, invert);
}

constexpr const char* unique_waits = "unique (the result's size is read on the host)";

// The kernels that unique is made of.
struct Unique {
  static inline Binding groups, collect, line, order, rows;

  static bool takes(const at::Tensor& self) { return takes_dtype(groups, self.scalar_type()); }

  // The rows that differ from those before them in an order, the group of every row, and the groups' counts, these two where they
  // are wanted. `indices` are the rows' numbers in that order, if it is not theirs; `in_order` says that the rows lie in it
  // already. Waits for the number of groups.
  static Triple of(const at::Tensor& table, const at::Tensor& indices, bool in_order, bool with_inverse, bool with_counts) {
    const int64_t count = table.size(0);
    const auto longs = [&](int64_t size) { return new_empty({size}, at::kLong, table.device()); };
    at::Tensor numbers = longs(count);
    c10::SmallVector<const at::Tensor*, 2> compared{&table};
    if (indices.defined() && !in_order) {
      compared.push_back(&indices);
    }
    launch_shaped_or_throw(groups, table.scalar_type(), {&numbers}, compared, {});
    const int64_t different = awaited<int64_t>(numbers[count - 1], unique_waits) + 1;
    const at::Tensor starts = longs(different);
    const at::Tensor inverse = longs(with_inverse ? count : 0);
    const at::Tensor counts = longs(with_counts ? different : 0);
    c10::SmallVector<const at::Tensor*, 2> grouped{&numbers};
    if (indices.defined()) {
      grouped.push_back(&indices);
    }
    launch_shaped_or_throw(collect, at::kLong, {&starts, &inverse, &counts}, grouped, {in_order});
    // Its memory is the result's.
    numbers.reset();
    at::Tensor result = new_empty({different, table.size(1)}, table.scalar_type(), table.device());
    const at::Tensor* const from[] = {&table, &starts};
    launch_shaped_or_throw(rows, table.scalar_type(), {&result}, from, {});
    return {result, inverse, counts};
  }
};

// Elements of a line that one thread sorts in less time than more launches would take.
constexpr int64_t short_line = 4096;

// The elements that differ from those before them, of a line in order or of one that is taken as it is. Waits for their number.
at::Tensor unique_line(const at::Tensor& line, bool as_it_is) {
  at::Tensor values = new_empty(line.sizes(), line.scalar_type(), line.device());
  const at::Tensor count = new_empty({1}, at::kLong, line.device());
  const at::Tensor* const inputs[] = {&line};
  launch_shaped_or_throw(Unique::line, line.scalar_type(), {&values, &count}, inputs, {as_it_is});
  const auto kept = awaited<int64_t>(count, unique_waits);
  // Few of many take memory of their own.
  return 2 * kept < line.numel() ? values.narrow(0, 0, kept).clone() : values.resize_({kept});
}

at::Tensor no_longs(const at::Tensor& self) { return new_empty({0}, at::kLong, self.device()); }

// The elements of any tensor as rows.
Triple unique_flat(const at::Tensor& self, bool consecutive, bool return_inverse, bool return_counts) {
  if (self.numel() == 0) {
    at::Tensor inverse = return_inverse ? new_empty(self.sizes(), at::kLong, self.device()) : no_longs(self);
    return {new_empty({0}, self.scalar_type(), self.device()), inverse, no_longs(self)};
  }
  at::Tensor line = self.contiguous().view({-1});
  if (!return_inverse && !return_counts && (consecutive || line.numel() <= short_line)) {
    return {unique_line(line, consecutive), no_longs(self), no_longs(self)};
  }
  at::Tensor indices;
  if (!consecutive) {
    std::tie(line, indices) = at::sort(line, std::optional<bool>(true), 0);
    if (!return_inverse) {
      indices.reset();
    }
  }
  const auto [rows, inverse, counts] = Unique::of(line.view({-1, 1}), indices, /*in_order=*/true, return_inverse, return_counts);
  return {rows.view({-1}), return_inverse ? inverse.view(self.sizes()) : inverse, counts};
}

Triple unique2(const at::Tensor& self, bool sorted, bool return_inverse, bool return_counts) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_unique2", "");
  if (!Unique::takes(self)) {
    return call_fallback<Triple, const at::Tensor&, bool, bool, bool>(op, self, sorted, return_inverse, return_counts);
  }
  return unique_flat(self, /*consecutive=*/false, return_inverse, return_counts);
}

std::tuple<at::Tensor, at::Tensor> unique1(const at::Tensor& self, bool sorted, bool return_inverse) {
  auto [values, inverse, counts] = unique2(self, sorted, return_inverse, false);
  return {values, inverse};
}

// Rows along a dimension.
Triple unique_rows(const at::Tensor& self, int64_t dim, bool consecutive) {
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  const auto zeros = std::count(self.sizes().begin(), self.sizes().end(), 0);
  if (self.dim() > 0 && self.size(wrapped) == 0) {
    TORCH_CHECK(zeros == 1, "Number of zero sized dimensions is more than one, so unique cannot be applied ");
    return {new_empty(self.sizes(), self.scalar_type(), self.device()), no_longs(self), no_longs(self)};
  }
  TORCH_CHECK(zeros == 0, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  const at::Tensor moved = self.dim() == 0 ? self.view({1}) : self.movedim(wrapped, 0);
  const at::Tensor table = moved.contiguous().view({moved.size(0), -1});
  at::Tensor indices;
  if (!consecutive) {
    indices = new_empty({table.size(0)}, at::kLong, self.device());
    const at::Tensor* const inputs[] = {&table};
    launch_shaped_or_throw(Unique::order, self.scalar_type(), {&indices}, inputs, {});
  }
  auto [rows, inverse, counts] = Unique::of(table, indices, /*in_order=*/consecutive, /*with_inverse=*/true, /*with_counts=*/true);
  at::DimVector sizes(moved.sizes());
  sizes[0] = rows.size(0);
  return {self.dim() == 0 ? rows.view({-1}) : rows.view(sizes).movedim(0, wrapped), inverse, counts};
}

Triple unique_dim(const at::Tensor& self, int64_t dim, bool sorted, bool return_inverse, bool return_counts) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::unique_dim", "");
  if (!Unique::takes(self)) {
    return call_fallback<Triple, const at::Tensor&, int64_t, bool, bool, bool>(op, self, dim, sorted, return_inverse,
                                                                               return_counts);
  }
  return unique_rows(self, dim, /*consecutive=*/false);
}

Triple unique_dim_consecutive(const at::Tensor& self, int64_t dim, bool return_inverse, bool return_counts) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::unique_dim_consecutive", "");
  if (!Unique::takes(self)) {
    return call_fallback<Triple, const at::Tensor&, int64_t, bool, bool>(op, self, dim, return_inverse, return_counts);
  }
  return unique_rows(self, dim, /*consecutive=*/true);
}

Triple unique_consecutive(const at::Tensor& self, bool return_inverse, bool return_counts, std::optional<int64_t> dim) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::unique_consecutive", "");
  if (!Unique::takes(self)) {
    return call_fallback<Triple, const at::Tensor&, bool, bool, std::optional<int64_t>>(op, self, return_inverse, return_counts,
                                                                                        dim);
  }
  if (dim && !(*dim == 0 && self.dim() == 1)) {
    return unique_rows(self, *dim, /*consecutive=*/true);
  }
  return unique_flat(self, /*consecutive=*/true, return_inverse, return_counts);
}

void find_kernel_of_unique(Binding& binding, const char* kernel) {
  find_kernel(binding, {"_unique2", nullptr, "_unique2.out", kernel});
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  bind<Searchsorted>(m, {"searchsorted.Tensor", nullptr, "searchsorted.Tensor_out", "searchsorted"});
  m.impl("searchsorted.Scalar", TORCH_FN(Searchsorted::scalar));
  m.impl("searchsorted.Scalar_out", TORCH_FN(Searchsorted::scalar_out));
  m.impl("bucketize.Tensor", TORCH_FN(bucketize_tensor));
  m.impl("bucketize.Tensor_out", TORCH_FN(bucketize_out));
  m.impl("bucketize.Scalar", TORCH_FN(bucketize_scalar));
  bind<Isin>(m, {"isin.Tensor_Tensor", nullptr, "isin.Tensor_Tensor_out", "isin"});
  m.impl("isin.Tensor_Scalar", TORCH_FN(isin_scalar));
  m.impl("isin.Scalar_Tensor", TORCH_FN(scalar_isin));
  find_kernel_of_unique(Unique::groups, "unique_groups");
  find_kernel_of_unique(Unique::collect, "unique_collect");
  find_kernel_of_unique(Unique::line, "unique_line");
  find_kernel_of_unique(Unique::order, "unique_order");
  find_kernel_of_unique(Unique::rows, "unique_rows");
  m.impl("_unique", TORCH_FN(unique1));
  m.impl("_unique2", TORCH_FN(unique2));
  m.impl("unique_dim", TORCH_FN(unique_dim));
  m.impl("unique_dim_consecutive", TORCH_FN(unique_dim_consecutive));
  m.impl("unique_consecutive", TORCH_FN(unique_consecutive));
}

}  // namespace rustdev
