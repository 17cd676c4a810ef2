// at::GraphImplInterface over rd_graph_*, for torch.accelerator.Graph and torch.rustdev.Graph.
#include "torch_version.h"

#if RUSTDEV_TORCH_HAS_GRAPHS

#include <ATen/core/GraphImplInterface.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "check.h"

namespace rustdev {
namespace {

class Graph final : public at::GraphImplInterface {
 public:
  explicit Graph(at::GraphImplArgs args) : graph_(rd_graph_create(args.keep_graph)) {}

  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode mode) override {
    RD_CHECK(rd_graph_capture_begin(graph_.get(), pool.first, pool.second, static_cast<int32_t>(mode)));
  }

  void capture_end() override {
    bool is_empty = false;
    RD_CHECK(rd_graph_capture_end(graph_.get(), &is_empty));
    if (is_empty) {
      TORCH_WARN("The graph is empty: nothing was put on the stream that captured. Was the work on another device or stream?");
    }
  }

  void instantiate() override { RD_CHECK(rd_graph_instantiate(graph_.get())); }

  void replay() override { RD_CHECK(rd_graph_replay(graph_.get())); }

  void reset() override { rd_graph_reset(graph_.get()); }

  c10::MempoolId_t pool() const override {
    uint64_t number = 0;
    RD_CHECK(rd_graph_pool(graph_.get(), &number));
    return {0, number};
  }

  // A no-op: a graph always keeps the data of debug_dump.
  void enable_debug_mode() override {}

  void debug_dump(const std::string& path) override { RD_CHECK(rd_graph_dump(graph_.get(), path.c_str())); }

 private:
  Owned<rd_graph, rd_graph_destroy> graph_;
};

// PyTorch looks graphs up by the upper-case name of the device.
[[maybe_unused]] const bool registered = [] {
  std::string name = rd_backend_name();
  std::transform(name.begin(), name.end(), name.begin(), ::toupper);
  at::GraphImplRegistry()->Register(
      name, [](at::GraphImplArgs args) -> std::unique_ptr<at::GraphImplInterface> { return std::make_unique<Graph>(args); });
  return true;
}();

}  // namespace
}  // namespace rustdev

#endif
