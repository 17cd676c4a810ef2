// Mapping from rd_status to c10's exception types.
#include "check.h"

#include <atomic>

struct _object;  // Python's name of its PyObject

namespace torch {

// The exception that PyTorch's Python bindings convert to a Python exception of type `python_type()`. Repeats the class of
// torch/csrc/Exceptions.h, which includes Python's headers.
struct __attribute__((visibility("default"))) PyTorchError : public std::exception {
  PyTorchError() = default;
  PyTorchError(std::string msg_) : msg(std::move(msg_)) {}
  virtual _object* python_type() = 0;
  const char* what() const noexcept override { return msg.c_str(); }
  std::string msg;
};

}  // namespace torch

namespace rustdev {
namespace {

std::atomic<_object*> race_type{nullptr};

struct RaceError final : public torch::PyTorchError {
  using PyTorchError::PyTorchError;
  _object* python_type() override { return race_type.load(); }
};

}  // namespace

void throw_status(rd_status status) {
  const std::string text = rd_last_error();
  const c10::SourceLocation here{__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  switch (status) {
    case RD_OUT_OF_MEMORY:
      throw c10::OutOfMemoryError(here, text);
    case RD_UNSUPPORTED:
      throw c10::NotImplementedError(here, text);
    case RD_TASK_FAILED:
      throw c10::AcceleratorError(here, status, text);
    case RD_INVALID_VALUE:
      throw c10::ValueError(here, text);
    case RD_OUT_OF_RANGE:
      throw c10::IndexError(here, text);
    case RD_RACE:
      if (race_type.load() != nullptr) {
        throw RaceError(text);
      }
      [[fallthrough]];
    default:
      throw c10::Error(here, text);
  }
}

void set_race_type(void* type) { race_type.store(static_cast<_object*>(type)); }

}  // namespace rustdev
