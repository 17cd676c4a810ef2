// Loads and runs models that AOTInductor compiled for the device.
#include <cstdint>

#include <ATen/DynamicLibrary.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>

#include "rustdev.h"

namespace rustdev {
namespace {

using torch::inductor::AOTIModelContainerRunner;

class ModelRunner : public AOTIModelContainerRunner {
 public:
  ModelRunner(const std::string& path, size_t num_models, const std::string& device, const std::string& kernels_folder,
              bool single_threaded)
      : AOTIModelContainerRunner(path, num_models, device, kernels_folder, single_threaded) {}

 private:
  std::vector<at::Tensor> run_impl(std::vector<AtenTensorHandle>& inputs, void* stream) override {
    TORCH_CHECK(stream == nullptr, "a model runs on the current stream: make another one current in place of giving its handle");
    return AOTIModelContainerRunner::run_impl(inputs, stream);
  }
};

// As in python/rustdev/_inductor/kernel.h.
constexpr int32_t runtime_version = 1;

// Gives the library's kernels the functions of the runtime, in the order of Runtime in python/rustdev/_inductor/kernel.h.
void connect(const std::string& path) {
  static std::array functions{reinterpret_cast<void*>(&rd_stream_current), reinterpret_cast<void*>(&rd_stream_submit),
                              reinterpret_cast<void*>(&rd_parallel), reinterpret_cast<void*>(&rd_last_error)};
  // Never unloaded: tasks of its kernels may still be queued when the runner is destroyed.
  at::DynamicLibrary library(path.c_str(), nullptr, /*leak_handle=*/true);
  TORCH_CHECK(*static_cast<const int32_t*>(library.sym("rustdev_runtime_version")) == runtime_version,
              "the model was compiled for another version of rustdev: compile it again");
  reinterpret_cast<void (*)(const void*)>(library.sym("rustdev_connect"))(functions.data());
}

std::unique_ptr<AOTIModelContainerRunner> make_runner(const std::string& path, size_t num_models, const std::string& device,
                                                      const std::string& kernels_folder, bool single_threaded) {
  connect(path);
  const c10::DeviceGuard guard{c10::Device(device)};
  // AOTInductor's headers use the name "mps" for the device: see aoti_include/rustdev.h beside kernel.h.
  const std::string index = std::to_string(guard.current_device().index());
  return std::make_unique<ModelRunner>(path, num_models, "mps:" + index, kernels_folder, single_threaded);
}

[[maybe_unused]] const torch::inductor::RegisterAOTIModelRunner registered(rd_backend_name(), &make_runner);

}  // namespace
}  // namespace rustdev
