// Launch: operands and scalars of one kernel.
#include "tensor.h"

#include "torch_version.h"

namespace rustdev {

const rd_op* kernel(const char* name) {
  const rd_op* const op = rd_op_find(name);
  TORCH_INTERNAL_ASSERT(op != nullptr, "rustdev: the operator table has no ", name);
  return op;
}

rd_scalar to_scalar(const c10::Scalar& value) {
  if (value.isBoolean()) {
    const bool truth = value.to<bool>();
    return {static_cast<int32_t>(c10::ScalarType::Bool), truth, truth ? 1.0 : 0.0, 0.0};
  }
  // Integers beyond int64 are passed as the nearest float64.
  if (value.isIntegral(/*includeBool=*/false) && value.type() != c10::ScalarType::UInt64) {
    const int64_t integer = value.toLong();
    return {static_cast<int32_t>(c10::ScalarType::Long), integer, static_cast<double>(integer), 0.0};
  }
  if (value.isComplex()) {
    const auto complex = value.to<c10::complex<double>>();
    return {static_cast<int32_t>(c10::ScalarType::ComplexDouble), 0, complex.real(), complex.imag()};
  }
  return {static_cast<int32_t>(c10::ScalarType::Double), 0, value.to<double>(), 0.0};
}

void check_number(const at::Scalar& number, at::ScalarType dtype) {
  switch (dtype) {
#define CASE(type, name)     \
  case at::ScalarType::name: \
    (void)number.to<type>(); \
    return;
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX(CASE)
    CASE(uint16_t, UInt16)
    CASE(uint32_t, UInt32)
    CASE(uint64_t, UInt64)
#if RUSTDEV_TORCH_HAS_BCOMPLEX32
    CASE(c10::complex<c10::BFloat16>, BComplex32)
#endif
#undef CASE
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "\"a number\" not implemented for '", dtype, "'");
  }
}

at::Tensor distinct(const at::Tensor& tensor) {
  at::DimVector sizes(tensor.sizes());
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.stride(dim) == 0 && sizes[dim] > 1) {
      sizes[dim] = 1;
    }
  }
  return sizes == tensor.sizes() ? tensor : tensor.as_strided(sizes, tensor.strides());
}

uint32_t Launch::flags(const at::TensorBase& tensor) {
  uint32_t flags = 0;
  if (C10_UNLIKELY(tensor.is_conj())) {
    flags |= static_cast<uint32_t>(RD_OPERAND_CONJ);
  }
  if (C10_UNLIKELY(tensor.is_neg())) {
    flags |= static_cast<uint32_t>(RD_OPERAND_NEG);
  }
  if (C10_UNLIKELY(!on_device(tensor))) {
    flags |= static_cast<uint32_t>(RD_OPERAND_HOST);
  }
  return flags;
}

bool Launch::run(const rd_op* op, int32_t compute_dtype, int32_t device) const {
  TORCH_CHECK(C10_LIKELY(device_ == other_), "Expected all tensors to be on the same device, but found at least two devices, ",
              device_, " and ", other_, "! (operator ", rd_op_name(op), ")");
  const rd_launch_args args{operands_, num_operands_, num_outputs_, scalars_, num_scalars_, compute_dtype, dense_numel_};
  const rd_status status = rd_launch(op, device, &args);
  if (C10_LIKELY(status == RD_OK)) {
    return true;
  }
  if (status == RD_UNSUPPORTED) {
    return false;
  }
  throw_status(status);
}

void Launch::run_or_throw(const rd_op* op, int32_t compute_dtype, int32_t device) const {
  if (!run(op, compute_dtype, device)) {
    throw_status(RD_UNSUPPORTED);
  }
}

}  // namespace rustdev
