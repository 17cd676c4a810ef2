// Range factories: arange, linspace, eye. The others are bound in Rust.
#include <ATen/Dispatch_v2.h>
#include <ATen/native/RangeFactories.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/arange_native.h>
#include <ATen/ops/linspace_native.h>

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

at::Tensor& eye_m_out(int64_t n, int64_t m, at::Tensor& result) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  result.resize_({n, m});
  result.zero_();
  result.diagonal().fill_(1);
  return result;
}

at::Tensor& eye_out(int64_t n, at::Tensor& result) { return eye_m_out(n, n, result); }

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
  Tier composite(m, "composite");
  composite.impl("eye.m_out", TORCH_FN(eye_m_out));
  composite.impl("eye.out", TORCH_FN(eye_out));
}

}  // namespace rustdev
