// Labels: names that users give to tensors, which errors, memory snapshots and saved files keep.
//
// A label is the tensor's c10::BackendMeta, so PyTorch's shallow copies (`.data`, set_data) share it. If the tensor covers its
// storage, the label names the memory block too, and views, which have no BackendMeta, show that name.
#pragma once

namespace rustdev {

// The tensor's own label, else that of its memory block; none for tensors of other devices.
std::optional<std::string> label_of(const at::Tensor& tensor);

// Sets the label of a tensor of the device; nullopt removes it.
void set_label(const at::Tensor& tensor, const std::optional<std::string>& label);

// Gives a copy the source's own label, if it has one.
void carry_label(const at::Tensor& source, const at::Tensor& copy);

}  // namespace rustdev
