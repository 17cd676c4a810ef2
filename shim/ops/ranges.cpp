// Range factories: arange, linspace, logspace, tril_indices, eye, repeat_interleave.
#include <ATen/Dispatch_v2.h>
#include <ATen/native/RangeFactories.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/arange_native.h>
#include <ATen/ops/linspace_native.h>

#include "awaited.h"
#include "ops/factory.h"
#include "ops/tier.h"
#include "structured.h"

namespace rustdev {
namespace {

// Launches over the elements of a contiguous tensor in one line.
void launch_line(const rd_op* op, const at::Tensor& out, std::initializer_list<at::Scalar> scalars) {
  if (out.numel() == 0) {
    return;
  }
  const std::array<int64_t, 1> size{out.numel()};
  const std::array<int64_t, 1> stride{1};
  Launch launch;
  launch.restrided(out, size, stride);
  launch.finish_outputs();
  launch.scalars(scalars);
  const auto dtype = static_cast<int32_t>(out.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(launch.run(op, dtype, out.device().index()), "\"", rd_op_name(op), "\" not implemented for '",
                              out.scalar_type(), "'");
}

// As launch_line, of a tensor with any strides.
void launch_any_line(const rd_op* op, const at::Tensor& out, std::initializer_list<at::Scalar> scalars) {
  const at::Tensor line = out.contiguous();
  launch_line(op, line, scalars);
  if (!line.is_same(out)) {
    out.copy_(line);
  }
}

void arange_kernel(at::TensorIterator& iter, const at::Scalar& start, const at::Scalar&, const at::Scalar& step) {
  launch_line(kernel_of<"arange">, iter.tensor(0), {start, step});
}

// Whether a range of these numbers in this dtype is one that PyTorch has nothing to refuse in but the numbers' order.
bool is_plain_range(const rd_op* op, at::ScalarType dtype, std::initializer_list<const at::Scalar*> numbers) {
  return takes(op, dtype) && std::all_of(numbers.begin(), numbers.end(), [&](const at::Scalar* number) {
           return (dtype == at::kLong && number->isIntegral(/*includeBool=*/true)) || surely_holds(dtype, *number);
         });
}

at::Tensor arange_step(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, RD_OPTIONS) {
  const bool whole = start.isIntegral(true) && end.isIntegral(true) && step.isIntegral(true);
  const at::ScalarType wanted = dtype.value_or(whole ? at::kLong : c10::get_default_dtype_as_scalartype());
  if (C10_UNLIKELY(!is_plain_range(kernel_of<"arange">, wanted, {&start, &end, &step}))) {
    return at::native::arange(start, end, step, dtype, layout, device, pin_memory);
  }
  // Only Long numbers are counted in another way than as float64.
  const int64_t size = wanted == at::kLong ? at::native::compute_arange_size<int64_t>(start, end, step)
                                           : at::native::compute_arange_size<double>(start, end, step);
  at::Tensor result = new_plain(size, wanted, dtype, layout, device, pin_memory);
  launch_line(kernel_of<"arange">, result, {start, step});
  return result;
}

at::Tensor arange_start(const at::Scalar& start, const at::Scalar& end, RD_OPTIONS) {
  return arange_step(start, end, 1, dtype, layout, device, pin_memory);
}

at::Tensor arange(const at::Scalar& end, RD_OPTIONS) { return arange_step(0, end, 1, dtype, layout, device, pin_memory); }

void linspace_kernel(at::TensorIterator& iter, const at::Scalar& start, const at::Scalar& end, int64_t) {
  launch_line(kernel_of<"linspace">, iter.tensor(0), {start, end});
}

at::Tensor linspace(const at::Scalar& start, const at::Scalar& end, int64_t steps, RD_OPTIONS) {
  const at::ScalarType wanted = dtype.value_or(c10::get_default_dtype_as_scalartype());
  if (C10_UNLIKELY(steps < 0 || !is_plain_range(kernel_of<"linspace">, wanted, {&start, &end}))) {
    return at::native::linspace(start, end, steps, dtype, layout, device, pin_memory);
  }
  at::Tensor result = new_plain(steps, wanted, dtype, layout, device, pin_memory);
  launch_line(kernel_of<"linspace">, result, {start, end});
  return result;
}

at::Tensor& logspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, double base, at::Tensor& result) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (result.numel() != steps) {
    result.resize_({steps});
  }
  const rd_op* const op = kernel_of<"logspace">;
  launch_any_line(op, result, {start, end, base});
  return result;
}

at::Tensor& range_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& result) {
  const auto first = start.to<double>();
  const auto last = end.to<double>();
  const auto by = step.to<double>();
  TORCH_CHECK(by > 0 || by < 0, "step must be nonzero");
  TORCH_CHECK(std::isfinite(first) && std::isfinite(last), "unsupported range: ", first, " -> ", last);
  TORCH_CHECK((by > 0 && last >= first) || (by < 0 && last <= first), "upper bound and lower bound inconsistent with step sign");
  const auto size = static_cast<int64_t>((last - first) / by + 1);
  if (result.numel() != size) {
    result.resize_({size});
  }
  launch_any_line(kernel_of<"arange">, result, {start, step});
  return result;
}

at::Tensor& eye_m_out(int64_t n, int64_t m, at::Tensor& result) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  result.resize_({n, m});
  result.zero_();
  result.diagonal().fill_(1);
  return result;
}

at::Tensor& eye_out(int64_t n, at::Tensor& result) { return eye_m_out(n, n, result); }

at::Tensor triangle_indices(const char* name, int64_t elements, int64_t row, int64_t col, int64_t offset,
                            std::optional<at::ScalarType> dtype, std::optional<at::Device> device) {
  at::Tensor result = new_empty({2, elements}, dtype.value_or(at::kLong), device.value_or(at::Device(device_type)));
  if (elements != 0) {
    Launch launch;
    launch.output(result);
    for (const int64_t number : {row, col, offset}) {
      launch.scalar(number);
    }
    launch.run_or_throw(kernel(name), static_cast<int32_t>(result.scalar_type()), result.device().index());
  }
  return result;
}

at::Tensor tril_indices(int64_t row, int64_t col, int64_t offset, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool>) {
  at::native::check_args(row, col, layout);
  return triangle_indices("tril_indices", at::native::get_tril_size(row, col, offset), row, col, offset, dtype, device);
}

at::Tensor triu_indices(int64_t row, int64_t col, int64_t offset, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool>) {
  at::native::check_args(row, col, layout);
  const int64_t below = at::native::get_tril_size(row, col, offset - 1);
  return triangle_indices("triu_indices", row * col - below, row, col, offset, dtype, device);
}

// Without `output_size` the size is in the repeats, and the call waits for it.
at::Tensor repeat_interleave(const at::Tensor& repeats, std::optional<int64_t> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(at::isIntegralType(repeats.scalar_type(), /*includeBool=*/false),
              "repeats has to be Long, Int, Short, Char, or Byte tensor");
  if (repeats.numel() == 0) {
    return new_empty({0}, repeats.scalar_type(), repeats.device());
  }
  const at::Tensor ends = repeats.cumsum(0);
  if (!output_size) {
    constexpr const char* waits = "repeat_interleave without output_size (it is read on the host)";
    TORCH_CHECK(awaited<int64_t>(repeats.min(), waits) >= 0, "repeats can not be negative");
    output_size = awaited<int64_t>(ends[-1], waits);
  }
  at::Tensor result = new_empty({*output_size}, repeats.scalar_type(), repeats.device());
  Launch launch;
  launch.output(result);
  launch.input(ends);
  launch.run_or_throw(kernel_of<"repeat_interleave">, static_cast<int32_t>(result.scalar_type()), result.device().index());
  return result;
}

}  // namespace
}  // namespace rustdev

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(arange_stub, &rustdev::arange_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(linspace_stub, &rustdev::linspace_kernel)
}  // namespace at::native

namespace rustdev {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("arange", TORCH_FN(arange));
  m.impl("arange.start", TORCH_FN(arange_start));
  m.impl("arange.start_step", TORCH_FN(arange_step));
  m.impl("linspace", TORCH_FN(linspace));
  m.impl("arange.start_out", static_cast<at::Tensor& (*)(const at::Scalar&, const at::Scalar&, const at::Scalar&, at::Tensor&)>(
                                 at::native::arange_out));
  m.impl("linspace.out",
         static_cast<at::Tensor& (*)(const at::Scalar&, const at::Scalar&, int64_t, at::Tensor&)>(at::native::linspace_out));
  m.impl("logspace.out", TORCH_FN(logspace_out));
  m.impl("range.out", TORCH_FN(range_out));
  m.impl("tril_indices", TORCH_FN(tril_indices));
  m.impl("triu_indices", TORCH_FN(triu_indices));
  m.impl("repeat_interleave.Tensor", TORCH_FN(repeat_interleave));
  Tier composite(m, "composite");
  composite.impl("eye.m_out", TORCH_FN(eye_m_out));
  composite.impl("eye.out", TORCH_FN(eye_out));
}

}  // namespace rustdev
