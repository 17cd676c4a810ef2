// Serialisation of labels by torch.save, pickle and torch.jit.save.
//
// PyTorch stores a map of names to booleans with each tensor, so the label is stored as part of a name. Such a file loads anywhere:
// other devices, and a torch without rustdev, ignore unknown names.
#include <string>
#include <string_view>
#include <unordered_map>

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/serialization/pickler_helper.h>

#include "runtime/label.h"

namespace rustdev {
namespace {

using Metadata = std::unordered_map<std::string, bool>;

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

[[maybe_unused]] const bool registered = [] {  // NOLINT(bugprone-throwing-static-initialization): made while the module loads
  torch::jit::TensorBackendMetaRegistry(c10::DeviceType::PrivateUse1, &save_metadata, &load_metadata);
  return true;
}();

}  // namespace
}  // namespace rustdev
