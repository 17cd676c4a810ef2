// Labels: names that users give to tensors, which errors, memory snapshots and saved files keep. This file has the operators by
// which Python reads and sets them, and their serialisation by torch.save, pickle and torch.jit.save.
//
// A label is the tensor's c10::BackendMeta, so PyTorch's shallow copies (`.data`, set_data) share it. If the tensor covers its
// storage, the label names the memory block too, and views, which have no BackendMeta, show that name.
#include <torch/csrc/jit/serialization/pickler_helper.h>

#include "runtime/runtime.h"
#include "tensor.h"

namespace rustdev {
namespace {

// Immutable, so tensors can share it, and the default BackendMeta::clone is right.
struct Label final : c10::BackendMeta {
  explicit Label(std::string label) : text(std::move(label)) {}
  const std::string text;
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

// The tensor's own label, else that of its memory block; none for tensors of other devices.
std::optional<std::string> label_of(const at::Tensor& tensor) {
  if (const Label* own = own_label(tensor)) {
    return own->text;
  }
  const void* memory = memory_of(tensor);
  const Owned<char, rd_string_free> text(memory == nullptr ? nullptr : rd_memory_label(memory));
  return text ? std::optional<std::string>(text.get()) : std::nullopt;
}

// Sets the label of a tensor of the device; nullopt removes it.
void set_label(const at::Tensor& tensor, const std::optional<std::string>& label) {
  TORCH_CHECK(on_device(tensor), "a label belongs to a tensor of a ", rd_backend_name(), " device, got one of ", tensor.device());
  TORCH_CHECK(!label || label->find('\0') == std::string::npos, "a label cannot hold the character 0");
  auto* impl = tensor.unsafeGetTensorImpl();
  if (label) {
    impl->set_backend_meta(c10::make_intrusive<Label>(*label));
  } else if (impl->get_backend_meta() != nullptr) {
    impl->set_backend_meta(nullptr);
  }
  const void* memory = memory_of(tensor);
  if (memory != nullptr && tensor.nbytes() == tensor.storage().nbytes()) {
    rd_memory_set_label(memory, label ? label->c_str() : nullptr);
  }
}

using Metadata = std::unordered_map<std::string, bool>;

// PyTorch stores a map of names to booleans with each tensor, so the label is stored as part of a name. Such a file loads anywhere:
// other devices, and a torch without rustdev, ignore unknown names.
constexpr std::string_view label_prefix = "rustdev.label=";

void save_metadata(const at::Tensor& tensor, Metadata& metadata) {
  if (const auto label = label_of(tensor)) {
    metadata[std::string(label_prefix) + *label] = true;
  }
}

void load_metadata(const at::Tensor& tensor, Metadata& metadata) {
  for (const auto& [name, value] : metadata) {
    if (value && name.starts_with(label_prefix)) {
      set_label(tensor, name.substr(label_prefix.size()));
    }
  }
}

}  // namespace

void carry_label(const at::Tensor& source, const at::Tensor& copy) {
  if (const Label* label = own_label(source)) {
    set_label(copy, label->text);
  }
}

TORCH_LIBRARY_FRAGMENT(rustdev, m) {
  torch::jit::TensorBackendMetaRegistry(device_type, &save_metadata, &load_metadata);
  m.def("label(Tensor self) -> str?", &label_of);
  m.def("set_label(Tensor self, str? label) -> ()", &set_label);
}

}  // namespace rustdev
