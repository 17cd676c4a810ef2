// at::GraphImplInterface over rd_capture_* and rd_graph_*, for torch.accelerator.Graph and torch.rustdev.Graph.
#include "torch_version.h"

#if RUSTDEV_TORCH_HAS_GRAPHS

#include <ATen/core/GraphImplInterface.h>
#include <torch/library.h>

#include <memory>

#include "check.h"

namespace rustdev {
namespace {

using at::GraphCaptureMode;

struct GraphDelete {
  void operator()(rd_graph* graph) const { rd_graph_destroy(graph); }
};

int32_t mode_of(GraphCaptureMode mode) {
  switch (mode) {
    case GraphCaptureMode::Global:
      return RD_CAPTURE_GLOBAL;
    case GraphCaptureMode::Relaxed:
      return RD_CAPTURE_RELAXED;
    default:
      return RD_CAPTURE_THREAD_LOCAL;
  }
}

// A pool is named (0, number); (0, 0) means one of the graph's own.
uint64_t number_of(c10::MempoolId_t pool) {
  TORCH_CHECK(pool.first == 0, "capture_begin: (", pool.first, ", ", pool.second, ") is not the name of a memory pool");
  return pool.second;
}

class Graph final : public at::GraphImplInterface {
 public:
  explicit Graph(at::GraphImplArgs args) : keeps_graph_(args.keep_graph) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() override { rd_capture_abort(capture_); }

  void capture_begin(c10::MempoolId_t pool, GraphCaptureMode mode) override {
    TORCH_CHECK(capture_ == nullptr, "capture_begin: this graph is capturing already");
    TORCH_CHECK(graph_ == nullptr, "capture_begin: this graph holds a capture. Make another graph, or call reset() first");
    RD_CHECK(rd_capture_begin(rd_device_current(), number_of(pool), mode_of(mode), &capture_));
  }

  void capture_end() override {
    TORCH_CHECK(capture_ != nullptr, "capture_end: this graph is not capturing");
    rd_graph* graph = nullptr;
    bool is_over = false;
    const rd_status status = rd_capture_end(capture_, &graph, &is_over);
    if (is_over) {
      capture_ = nullptr;
    }
    RD_CHECK(status);
    graph_.reset(graph);
    if (rd_graph_is_empty(graph)) {
      TORCH_WARN("The graph is empty: nothing was put on the stream that captured. Was the work on another device or stream?");
    }
  }

  // What capture_end makes can be replayed as it is.
  void instantiate() override {
    check_captured("instantiate");
    TORCH_CHECK(keeps_graph_, "instantiate: only for a graph with keep_graph=True; others are instantiated by capture_end");
  }

  void replay() override {
    check_captured("replay");
    RD_CHECK(rd_graph_replay(graph_.get()));
  }

  void reset() override {
    rd_capture_abort(capture_);
    capture_ = nullptr;
    graph_.reset();
  }

  c10::MempoolId_t pool() const override {
    check_captured("pool");
    return {0, rd_graph_pool(graph_.get())};
  }

  // A graph keeps what debug_dump writes in any case.
  void enable_debug_mode() override {}

  void debug_dump(const std::string& path) override {
    check_captured("debug_dump");
    RD_CHECK(rd_graph_dump(graph_.get(), path.c_str()));
  }

 private:
  void check_captured(const char* method) const { TORCH_CHECK(graph_ != nullptr, method, ": this graph holds no capture"); }

  bool keeps_graph_;
  rd_capture* capture_ = nullptr;
  std::unique_ptr<rd_graph, GraphDelete> graph_;
};

int64_t python_graph_pool_handle() { return static_cast<int64_t>(rd_graph_pool_handle()); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(rustdev, m) { m.def("graph_pool_handle() -> int", &python_graph_pool_handle); }

}  // namespace rustdev

namespace at {

REGISTER_GRAPH_IMPL(RUSTDEV, rustdev::Graph)

}  // namespace at

#endif
