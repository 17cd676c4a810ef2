// torch.profiler: the device's tasks as rows of Kineto's traces.
//
// The runtime records (src/runtime/trace.rs); here its rows become Kineto's activities when a trace is over. A task is two of them,
// with one number and an arrow from the first to the second: the call that submitted it, on the line of its thread, and what ran,
// on the line of its stream. Both are linked with the operator around the call, which PyTorch tells us of by pushes and pops on
// each thread. A replay of a graph is one call and as many activities on the stream as nodes ran, with an arrow to each.
#include <c10/util/Exception.h>

#if __has_include(<torch/csrc/profiler/standalone/privateuse1_profiler.h>)

// Kineto's headers format by fmt, whose functions libtorch keeps to itself.
#define FMT_HEADER_ONLY
#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rustdev.h"

namespace rustdev {
namespace {

using libkineto::ActivityType;
using libkineto::GenericTraceActivity;

struct TraceDelete {
  void operator()(rd_trace* trace) const { rd_trace_destroy(trace); }
};

using Types = std::set<ActivityType>;

// What a trace can have of the device itself. Calls alone, as a trace of the CPU asks for them, would be calls of nothing.
const Types& types_on_device() {
  static const Types types = {ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY, ActivityType::GPU_MEMSET,
                              ActivityType::GPU_USER_ANNOTATION};
  return types;
}

// What of a range of the user ran on one stream.
using RangeOnStream = std::tuple<uint64_t, int32_t, int64_t>;
using Interval = std::pair<uint64_t, uint64_t>;

ActivityType activity_type(const rd_trace_row& row) {
  switch (row.activity) {
    case RD_TRACE_COPY:
      return ActivityType::GPU_MEMCPY;
    case RD_TRACE_FILL:
      return ActivityType::GPU_MEMSET;
    default:
      return ActivityType::CONCURRENT_KERNEL;
  }
}

std::string stream_name(int32_t device, int64_t stream) {
  const std::string name = "stream " + std::to_string(stream);
  if (stream == 0) {
    return name + " (default)";
  }
  return rd_stream_priority(device, stream) < 0 ? name + " (high priority)" : name;
}

// The rows of one trace on their way to Kineto.
class Rows {
 public:
  Rows(const Types& types, const rd_trace* trace, libkineto::CpuTraceBuffer& buffer, libkineto::ActivityLogger& logger,
       libkineto::getLinkedActivityCallback linked)
      : types_(types), trace_(trace), buffer_(buffer), logger_(logger), linked_(std::move(linked)) {}

  // `id`: above 0, one of its own.
  void add(const rd_trace_row& row, int32_t id) {
    const libkineto::ITraceActivity* const linked = activity(row.operator_id != 0 ? row.operator_id : row.range_id);
    if (types_.count(ActivityType::PRIVATEUSE1_RUNTIME) != 0 && row.replay == 0) {
      add_call(row, id, linked);
    }
    if (row.begin != 0 && row.activity != RD_TRACE_CALL) {
      if (types_.count(activity_type(row)) != 0) {
        add_run(row, id, linked);
      }
      note_range(row);
    }
  }

  // The ranges of the user as they were on the streams: from the first to the last task that was submitted in them. Without links:
  // their tasks are linked already.
  void add_ranges() {
    for (const auto& [key, interval] : ranges_) {
      const auto& [range, device, stream] = key;
      const libkineto::ITraceActivity* const linked = activity(range);
      if (linked != nullptr && types_.count(ActivityType::GPU_USER_ANNOTATION) != 0) {
        auto& on_stream = append(ActivityType::GPU_USER_ANNOTATION, linked->name(), interval.first, interval.second);
        on_stream.device = device;
        on_stream.resource = stream;
        on_stream.log(logger_);
        lines_.emplace(device, stream);
      }
    }
  }

  // The names of the lines.
  void add_lines(int64_t time) {
    for (const auto& [device, stream] : lines_) {
      logger_.handleResourceInfo({stream, stream, device, stream_name(device, stream)}, time);
    }
    for (int32_t device = 0; device < rd_device_count(); ++device) {
      logger_.handleDeviceInfo({device, libkineto::kExceedMaxPid + device, "rustdev " + std::to_string(device), "rustdev"}, time);
    }
  }

 private:
  void add_call(const rd_trace_row& row, int32_t id, const libkineto::ITraceActivity* linked) {
    GenericTraceActivity& call = append(ActivityType::PRIVATEUSE1_RUNTIME, row.call, row.submission_begin, row.submission_end);
    place(call, id, libkineto::processId(), row.thread, linked);
    call.threadId = row.thread;
    call.flow.start = 1;
    call.addMetadataQuoted("task", std::string(row.name, row.name_length));
    if (row.begin == 0) {
      call.addMetadataQuoted("outcome", row.outcome);
    }
    call.log(logger_);
  }

  void add_run(const rd_trace_row& row, int32_t id, const libkineto::ITraceActivity* linked) {
    GenericTraceActivity& run = append(activity_type(row), row.title, row.begin, row.end);
    place(run, id, row.device, row.stream, linked);
    run.flow.start = 0;
    if (row.replay != 0) {
      run.flow.id = static_cast<uint32_t>(row.replay);
    }
    describe(run, row);
    run.log(logger_);
    lines_.emplace(row.device, row.stream);
  }

  const libkineto::ITraceActivity* activity(uint64_t id) const { return id == 0 ? nullptr : linked_(static_cast<int32_t>(id)); }

  GenericTraceActivity& append(ActivityType type, const std::string& name, uint64_t begin, uint64_t end) {
    buffer_.emplace_activity(buffer_.span, type, name);
    GenericTraceActivity& activity = *buffer_.activities.back();
    activity.startTime = static_cast<int64_t>(begin);
    activity.endTime = static_cast<int64_t>(end);
    return activity;
  }

  static void place(GenericTraceActivity& activity, int32_t id, int32_t device, int64_t resource,
                    const libkineto::ITraceActivity* linked) {
    activity.id = id;
    activity.device = device;
    activity.resource = resource;
    activity.linked = linked;
    activity.flow.id = id;
    activity.flow.type = libkineto::kLinkAsyncCpuGpu;
  }

  static void describe(GenericTraceActivity& run, const rd_trace_row& row) {
    run.addMetadata("device", row.device);
    run.addMetadata("stream", row.stream);
    run.addMetadata("correlation", run.id);
    run.addMetadataQuoted("tier", row.tier);
    if (row.activity == RD_TRACE_COPY || row.activity == RD_TRACE_FILL) {
      run.addMetadata("bytes", row.bytes);
      // A byte in a nanosecond is a gigabyte in a second.
      run.addMetadata("memory bandwidth (GB/s)",
                      static_cast<double>(row.bytes) / static_cast<double>(std::max<uint64_t>(row.end - row.begin, 1)));
    }
    if (row.members > 1) {
      run.addMetadata("fused", row.members);
    }
    if (std::string_view(row.outcome) != "done") {
      run.addMetadataQuoted("outcome", row.outcome);
    }
  }

  void note_range(const rd_trace_row& row) {
    for (uint64_t range = row.range_id; range != 0; range = rd_trace_parent(trace_, range)) {
      const auto [place, is_new] = ranges_.try_emplace({range, row.device, row.stream}, row.begin, row.end);
      if (!is_new) {
        place->second = {std::min(place->second.first, row.begin), std::max(place->second.second, row.end)};
      }
    }
  }

  const Types& types_;
  const rd_trace* trace_;
  libkineto::CpuTraceBuffer& buffer_;
  libkineto::ActivityLogger& logger_;
  libkineto::getLinkedActivityCallback linked_;
  std::set<std::pair<int32_t, int64_t>> lines_;
  std::map<RangeOnStream, Interval> ranges_;
};

class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(Types types) : types_(std::move(types)) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() override { end(); }

  void start() override {
    if (rd_trace_start(&number_) == RD_OK) {
      status_ = libkineto::TraceStatus::RECORDING;
    } else {
      fail(rd_last_error());
    }
  }

  void stop() override {
    end();
    if (status_ == libkineto::TraceStatus::RECORDING) {
      status_ = libkineto::TraceStatus::PROCESSING;
    }
  }

  std::vector<std::string> errors() override { return errors_; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, 0);
  }

  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t start,
                    int64_t end) override {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(start, end, "rustdev");
    buffer_->gpuOpCount = static_cast<int>(rd_trace_count(trace_.get()));
    Rows rows(types_, trace_.get(), *buffer_, logger, std::move(linked));
    for (size_t index = 0; index < rd_trace_count(trace_.get()); ++index) {
      rd_trace_row row;
      if (rd_trace_row_at(trace_.get(), index, &row)) {
        rows.add(row, static_cast<int32_t>(index) + 1);
        rd_string_free(row.title);
      }
    }
    rows.add_ranges();
    rows.add_lines(start);
    if (const size_t dropped = rd_trace_dropped(trace_.get()); dropped > 0) {
      fail("the trace holds the first " + std::to_string(rd_trace_count(trace_.get())) + " tasks; " + std::to_string(dropped) +
           " more found no room in it (torch.rustdev.profiler.set_limit)");
    }
    trace_.reset();
  }

  // All devices and their streams are named in processTrace: here is room for one.
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }

  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  void pushCorrelationId(uint64_t id) override { rd_trace_enter(id, /*is_user=*/false); }
  void popCorrelationId() override { rd_trace_leave(/*is_user=*/false); }
  void pushUserCorrelationId(uint64_t id) override { rd_trace_enter(id, /*is_user=*/true); }
  void popUserCorrelationId() override { rd_trace_leave(/*is_user=*/true); }

 private:
  void end() {
    if (number_ != 0) {
      trace_.reset(rd_trace_stop(std::exchange(number_, 0)));
    }
  }

  void fail(const std::string& message) {
    errors_.push_back(message);
    TORCH_WARN("rustdev: ", message);
  }

  Types types_;
  // That of the trace being taken; 0 for none.
  uint64_t number_ = 0;
  std::unique_ptr<rd_trace, TraceDelete> trace_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
  std::vector<std::string> errors_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }

  const Types& availableActivities() const override { return types_; }

  // Null: this profiler takes no part.
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const Types& types, const libkineto::Config& /*config*/) override {
    const auto is_asked = [&types](ActivityType type) { return types.count(type) != 0; };
    return std::any_of(types_on_device().begin(), types_on_device().end(), is_asked) ? std::make_unique<Session>(types) : nullptr;
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t /*begin*/, int64_t /*duration*/, const Types& types,
                                                                 const libkineto::Config& config) override {
    return configure(types, config);
  }

 private:
  std::string name_ = "rustdev";
  Types types_ = [] {
    Types types = types_on_device();
    types.insert(ActivityType::PRIVATEUSE1_RUNTIME);
    return types;
  }();
};

REGISTER_PRIVATEUSE1_PROFILER(Profiler);

}  // namespace
}  // namespace rustdev

#endif
