// Launches over lists of tensors: one task for the tensors of all lists. Tensors at the same index of the lists are dense and have
// the same sizes and strides, so that the kernel takes each as a contiguous array.
#pragma once

#include <vector>

#include "tensor.h"

namespace rustdev {

// Tensors of a list in one launch: the operands' descriptors have a limit. Longer lists take several.
inline constexpr size_t tensors_per_launch = 4096;

// Calls body(begin, count) for the parts of lists that one launch takes.
template <class Body>
void for_each_launch(size_t tensors, const Body& body) {
  for (size_t begin = 0; begin < tensors; begin += tensors_per_launch) {
    body(begin, std::min(tensors - begin, tensors_per_launch));
  }
}

// One launch under construction: lists are added output by output, then the others, then single tensors and scalars.
class ListLaunch {
 public:
  // Room for so many operands.
  explicit ListLaunch(size_t operands, size_t tensors) {
    operands_.reserve(operands);
    words_.reserve(2 * operands);
    scalar(static_cast<int64_t>(tensors));
  }

  void list(at::TensorList tensors) {
    for (const at::Tensor& tensor : tensors) {
      single(tensor);
    }
  }

  // A dense tensor. At most as many as there is room for.
  void single(const at::Tensor& tensor) {
    words_.push_back(tensor.numel());
    words_.push_back(static_cast<int64_t>(tensor.itemsize()));
    const int64_t* const words = words_.data() + words_.size() - 2;
    operands_.push_back(rd_operand{data_of(tensor), words, words + 1, 1, static_cast<int32_t>(tensor.scalar_type()), 0});
  }

  // What was added so far are the outputs.
  void finish_outputs() { outputs_ = operands_.size(); }

  void scalar(const c10::Scalar& value) { scalars_.push_back(to_scalar(value)); }

  // Enqueues on the current stream of `device`, or throws where the kernel does not take the dtype.
  void run(const rd_op* op, c10::ScalarType dtype, c10::Device device) const {
    const rd_launch_args args{
        operands_.data(), operands_.size(), outputs_, scalars_.data(), scalars_.size(), static_cast<int32_t>(dtype), 0};
    RD_CHECK(rd_launch(op, device.index(), &args));
  }

 private:
  std::vector<rd_operand> operands_;
  std::vector<int64_t> words_;
  c10::SmallVector<rd_scalar, 16> scalars_;
  size_t outputs_ = 0;
};

}  // namespace rustdev
