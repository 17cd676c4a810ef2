// Copies between any dtypes, strides and devices, and reads of single elements (item, equal).
//
// src/abi/rd_copy.rs launches them. A copy from or to the host is asynchronous only if the host memory is pinned and non_blocking
// is set; otherwise the call returns when the copy is done.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/item_native.h>

#include "boxed_values.h"
#include "ops/tier.h"
#include "runtime/runtime.h"
#include "runtime/sync_debug.h"

namespace rustdev {
namespace {

bool same_elements(const at::Tensor& dst, const at::Tensor& src) {
  return dst.is_alias_of(src) && dst.storage_offset() == src.storage_offset() && dst.strides() == src.strides() &&
         dst.sizes() == src.sizes() && dst.scalar_type() == src.scalar_type() && dst.is_conj() == src.is_conj() &&
         dst.is_neg() == src.is_neg();
}

// `wait`: the name of the wait for the copy, for reports; null for an asynchronous copy.
void launch_copy(const at::Tensor& dst, const at::Tensor& src, const char* wait = nullptr) {
  rd_tensor to, from;
  describe(dst, to);
  describe(src, from);
  RD_CHECK(rd_copy(&to, &from, wait));
}

// Copies between host and device, asynchronously only for pinned memory with `non_blocking`. HostWait comes first, because it may
// throw and a submitted copy cannot be abandoned.
void copy_host(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  const bool to_device = on_device(dst);
  const char* const name = to_device ? "a copy from the CPU that waits (memory is not pinned, or non_blocking is False)"
                                     : "a copy to the CPU that waits (memory is not pinned, or non_blocking is False)";
  const bool pinned = rd_host_is_pinned(data_of(to_device ? src : dst));
  const bool is_asynchronous = non_blocking && pinned;
  const HostWait wait({.kind = RD_WAIT_COPY,
                       .device = (to_device ? dst : src).device().index(),
                       .name = name,
                       .bytes = static_cast<uint64_t>(dst.numel() * dst.element_size()),
                       .to_device = to_device,
                       .pinned = pinned,
                       .is_asynchronous = is_asynchronous});
  launch_copy(dst, src, is_asynchronous ? nullptr : name);
}

void copy_elements(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  on_device(dst) && on_device(src) ? launch_copy(dst, src) : copy_host(dst, src, non_blocking);
}

void check_copy(const at::Tensor& dst, const at::Tensor& src) {
  const auto supported = [](const at::Tensor& tensor) { return on_device(tensor) || tensor.is_cpu(); };
  TORCH_CHECK_NOT_IMPLEMENTED(supported(src) && supported(dst), rd_backend_name(), ": cannot copy from ", src.device(), " to ",
                              dst.device(), "; go by way of the CPU");
  TORCH_CHECK_NOT_IMPLEMENTED(dst.layout() == at::kStrided && src.layout() == at::kStrided, rd_backend_name(),
                              ": cannot copy from layout ", src.layout(), " to layout ", dst.layout());
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  check_copy(dst, self);
  if (C10_UNLIKELY(self._is_zerotensor())) {
    return dst.zero_();
  }
  if (dst.is_same(self) || same_elements(dst, self)) {
    return dst;
  }
  at::assert_no_internal_overlap(dst);
  const auto source = at::expand_inplace(dst, self, "copy_");
  at::assert_no_partial_overlap(dst, *source);
  if (dst.numel() != 0) {
    copy_elements(dst, *source, non_blocking);
  }
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  dst.resize_(self.sizes());
  return copy_from(self, dst, /*non_blocking=*/false);
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  copy_from(src, self, non_blocking);
  return self;
}

// PyTorch's own code; the copy keeps the label.
at::Tensor clone(const at::Tensor& self, std::optional<at::MemoryFormat> memory_format) {
  at::Tensor copy = at::native::clone(self, memory_format);
  carry_label(self, copy);
  return copy;
}

// A read that is reported to the sanitizers.
at::Scalar checked_scalar(const at::Tensor& self) {
  const HostAccess access;
  RD_CHECK(rd_sanitizer_host_access("item", data_of(self), self.itemsize(), /*write=*/false));
  return at::native::_local_scalar_dense_cpu(self);
}

at::Scalar zero_of(at::ScalarType dtype) {
  return c10::isComplexType(dtype)    ? at::Scalar(c10::complex<double>())
         : c10::isFloatingType(dtype) ? at::Scalar(0.0)
         : dtype == at::kBool         ? at::Scalar(false)
                                      : at::Scalar(0);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  constexpr const char* name = "item() (a value of the device that is read on the host)";
  const int32_t device = self.device().index();
  const HostWait wait({RD_WAIT_READ, device, name});
  synchronize_current_stream(device, name);
  if (C10_UNLIKELY(is_dry())) {
    return zero_of(self.scalar_type());
  }
  return C10_UNLIKELY(rd_sanitizer_is_on()) ? checked_scalar(self) : at::native::_local_scalar_dense_cpu(self);
}

// Tensor.item without a second dispatch. Modes, subclasses, conjugated or negated views and functorch must see _local_scalar_dense;
// they have a dispatch key beyond those of a plain tensor, and use PyTorch's code.
at::Scalar item(const at::Tensor& self) {
  constexpr c10::DispatchKeySet plain{c10::DispatchKey::PrivateUse1, c10::DispatchKey::BackendSelect,
                                      c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::AutogradPrivateUse1,
                                      c10::DispatchKey::AutocastPrivateUse1};
  const c10::DispatchKeySet keys = self.key_set() | c10::impl::tls_local_dispatch_key_set().included_;
  if (C10_UNLIKELY(!plain.isSupersetOf(keys) || self.numel() != 1 || self.requires_grad())) {
    return at::native::item(self);
  }
  return local_scalar_dense(self);
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  TORCH_CHECK(stream.device_type() == device_type, "record_stream: the stream is of ", stream.device(), ", not ",
              rd_backend_name());
  void* const block = self.storage().mutable_data();
  if (block != nullptr) {
    RD_CHECK(rd_memory_record_stream(block, stream.device_index(), stream.id()));
  }
}

// Synchronous.
bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(), "Cannot compare two tensors on different devices. Got: ", self.device(), " and ",
              other.device());
  TORCH_CHECK(self.dtype() == other.dtype(), "Expected object of data type ", self.dtype(), " but got data type ", other.dtype(),
              " for argument 'other' in call to equal");
  return self.is_same_size(other) &&
         (self.numel() == 0 || awaited(at::eq(self, other).all(), "equal (the answer is read on the host)").toBool());
}

// Synchronous, as on the CPU device: waits for the value and raises at once. Holds in a dry run.
void assert_async_msg(const at::Tensor& self, std::string_view text) { TORCH_CHECK(is_dry() || self.is_nonzero(), text); }

// Reads an integer for an operator in Python, which `reader` names. `in_dry_run`: as in Caller::read of src/call.rs.
int64_t awaited_integer(const at::Tensor& number, std::string_view reader, int64_t in_dry_run) {
  const at::Scalar found = awaited(number, std::string(reader).c_str());
  return is_dry() ? in_dry_run : found.toLong();
}

void assert_async(const at::Tensor& self) { assert_async_msg(self, "_assert_async: the value is zero"); }

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("copy_", TORCH_FN(copy_));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  m.impl("_assert_async", TORCH_FN(assert_async));
  m.impl("_assert_async.msg", TORCH_FN(assert_async_msg));
  m.impl("record_stream", TORCH_FN(record_stream));
  impl(m, "aten", "clone", TORCH_FN(clone));
  impl(m, "composite", "equal", TORCH_FN(equal));
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("item", TORCH_FN(item)); }

TORCH_LIBRARY_FRAGMENT(rustdev, m) {
  m.def("_awaited(Tensor number, str reader, int in_dry_run) -> int",
        torch::dispatch(c10::DispatchKey::PrivateUse1, TORCH_FN(awaited_integer)));
}

TORCH_LIBRARY_IMPL(rustdev, AutogradPrivateUse1, m) {
  m.impl("_awaited", torch::CppFunction::makeFallthrough());
  m.impl("_launch", torch::CppFunction::makeFallthrough());
}

// The copy kernel reads and writes conjugated and negated memory itself. PyTorch's materialisation would recurse into this
// operator.
static void pass_copies(torch::Library& library) {
  library.impl("_copy_from", torch::CppFunction::makeFallthrough());
  library.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Conjugate, m) { pass_copies(m); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { pass_copies(m); }

}  // namespace rustdev
