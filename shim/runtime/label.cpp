// Labels of tensors, and the operators by which Python reads and sets them.
#include "runtime/label.h"

#include <memory>
#include <utility>

#include <c10/core/TensorImpl.h>
#include <torch/library.h>

#include "rustdev.h"
#include "tensor.h"

namespace rustdev {
namespace {

// Immutable, so tensors can share it, and the default BackendMeta::clone is right.
struct Label final : c10::BackendMeta {
  explicit Label(std::string label) : text(std::move(label)) {}
  const std::string text;
};

struct StringDelete {
  void operator()(char* text) const { rd_string_free(text); }
};

const Label* own_label(const at::Tensor& tensor) {
  return tensor.defined() ? dynamic_cast<const Label*>(tensor.unsafeGetTensorImpl()->get_backend_meta()) : nullptr;
}

// The beginning of the storage; null without device memory, as for sparse and fake tensors.
const void* memory_of(const at::Tensor& tensor) {
  if (!on_device(tensor) || !tensor.has_storage() || tensor.storage().device().type() != device_type) {
    return nullptr;
  }
  return tensor.storage().data();
}

bool covers_storage(const at::Tensor& tensor) { return tensor.nbytes() == tensor.storage().nbytes(); }

}  // namespace

std::optional<std::string> label_of(const at::Tensor& tensor) {
  if (const Label* own = own_label(tensor)) {
    return own->text;
  }
  const void* memory = memory_of(tensor);
  const std::unique_ptr<char, StringDelete> text(memory == nullptr ? nullptr : rd_memory_label(memory));
  return text ? std::optional<std::string>(text.get()) : std::nullopt;
}

void set_label(const at::Tensor& tensor, const std::optional<std::string>& label) {
  TORCH_CHECK(on_device(tensor), "a label belongs to a tensor of a rustdev device, got one of ", tensor.device());
  TORCH_CHECK(!label || label->find('\0') == std::string::npos, "a label cannot hold the character 0");
  auto* impl = tensor.unsafeGetTensorImpl();
  if (label) {
    impl->set_backend_meta(c10::make_intrusive<Label>(*label));
  } else if (impl->get_backend_meta() != nullptr) {
    impl->set_backend_meta(nullptr);
  }
  const void* memory = memory_of(tensor);
  if (memory != nullptr && covers_storage(tensor)) {
    rd_memory_set_label(memory, label ? label->c_str() : nullptr);
  }
}

void carry_label(const at::Tensor& source, const at::Tensor& copy) {
  if (const Label* label = own_label(source)) {
    set_label(copy, label->text);
  }
}

TORCH_LIBRARY_FRAGMENT(rustdev, m) {
  m.def("label(Tensor self) -> str?", &label_of);
  m.def("set_label(Tensor self, str? label) -> ()",
        [](const at::Tensor& self, const std::optional<std::string>& label) { set_label(self, label); });
}

}  // namespace rustdev
