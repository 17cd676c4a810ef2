// torch.profiler: the device's tasks as rows of Kineto's traces.
//
// The runtime records tasks and converts them to activities (src/runtime/activities.rs); this file converts those to Kineto's.
// PyTorch reports operators by pushes and pops on each thread.
#include <c10/util/Exception.h>

#if __has_include(<torch/csrc/profiler/standalone/privateuse1_profiler.h>)

// Kineto's headers use fmt, whose symbols libtorch does not export.
#define FMT_HEADER_ONLY
#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <set>
#include <span>

#include "check.h"

namespace rustdev {
namespace {

using libkineto::ActivityType;
using libkineto::GenericTraceActivity;

using Types = std::set<ActivityType>;

// Kineto's types by RD_ACTIVITY_TYPE_*.
constexpr std::array<ActivityType, 5> kTypes = {ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY, ActivityType::GPU_MEMSET,
                                                ActivityType::GPU_USER_ANNOTATION, ActivityType::PRIVATEUSE1_RUNTIME};
constexpr uint32_t kCalls = 1U << RD_ACTIVITY_TYPE_CALL;

uint32_t mask_of(const Types& types) {
  uint32_t mask = 0;
  for (size_t kind = 0; kind < kTypes.size(); ++kind) {
    mask |= static_cast<uint32_t>(types.count(kTypes[kind])) << kind;
  }
  return mask;
}

class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(uint32_t types) : types_(types) {}
  Session(Session&&) = delete;
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
    buffer_->span = libkineto::TraceSpan(start, end, rd_backend_name());
    buffer_->gpuOpCount = static_cast<int>(rd_trace_count(trace_.get()));
    rd_activity next;
    while (rd_trace_next(trace_.get(), &next)) {
      if (next.kind == RD_ACTIVITY_TYPE_LINE) {
        logger.handleResourceInfo({next.resource, next.resource, next.device, next.name}, start);
      } else {
        add(next, logger, next.linked == 0 ? nullptr : linked(static_cast<int32_t>(next.linked)));
      }
    }
    for (int32_t device = 0; device < rd_device_count(); ++device) {
      logger.handleDeviceInfo(
          {device, libkineto::kExceedMaxPid + device, c10::str(rd_backend_name(), " ", device), rd_backend_name()}, start);
    }
    if (const size_t dropped = rd_trace_dropped(trace_.get()); dropped > 0) {
      fail("the trace holds the first " + std::to_string(rd_trace_count(trace_.get())) + " tasks; " + std::to_string(dropped) +
           " more found no room in it (torch." + rd_backend_name() + ".profiler.set_limit)");
    }
    trace_.reset();
  }

  // Returns one device only; processTrace names all devices and their streams.
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }

  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  void pushCorrelationId(uint64_t id) override { rd_trace_enter(id, /*is_user=*/false); }
  void popCorrelationId() override { rd_trace_leave(/*is_user=*/false); }
  void pushUserCorrelationId(uint64_t id) override { rd_trace_enter(id, /*is_user=*/true); }
  void popUserCorrelationId() override { rd_trace_leave(/*is_user=*/true); }

 private:
  void add(const rd_activity& from, libkineto::ActivityLogger& logger, const libkineto::ITraceActivity* linked) {
    const bool is_range = from.kind == RD_ACTIVITY_TYPE_RANGE;
    if (is_range && linked == nullptr) {
      return;
    }
    buffer_->emplace_activity(buffer_->span, kTypes.at(from.kind), is_range ? linked->name() : from.name);
    GenericTraceActivity& activity = *buffer_->activities.back();
    activity.startTime = static_cast<int64_t>(from.begin);
    activity.endTime = static_cast<int64_t>(from.end);
    activity.id = from.id;
    activity.device = from.device;
    activity.resource = from.resource;
    // Not linked: the tasks of the range are.
    activity.linked = is_range ? nullptr : linked;
    if (from.kind == RD_ACTIVITY_TYPE_CALL) {
      activity.threadId = static_cast<int32_t>(from.resource);
      activity.flow.start = 1;
    }
    if (from.arrow != 0) {
      activity.flow.id = static_cast<uint32_t>(from.arrow);
      activity.flow.type = libkineto::kLinkAsyncCpuGpu;
    }
    for (const rd_activity_note& note : std::span(from.notes, from.num_notes)) {
      if (note.is_text) {
        activity.addMetadataQuoted(note.key, note.value);
      } else {
        activity.addMetadata(note.key, note.value);
      }
    }
    activity.log(logger);
  }

  void end() {
    if (number_ != 0) {
      trace_.reset(rd_trace_stop(std::exchange(number_, 0), types_));
    }
  }

  void fail(const std::string& message) {
    errors_.push_back(message);
    TORCH_WARN(rd_backend_name(), ": ", message);
  }

  // A bit mask by RD_ACTIVITY_TYPE_*.
  uint32_t types_;
  // The number of the running trace; 0 for none.
  uint64_t number_ = 0;
  Owned<rd_trace, rd_trace_destroy> trace_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
  std::vector<std::string> errors_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }

  const Types& availableActivities() const override { return types_; }

  // Returns null, to take no part, if only calls are requested, as by a trace of the CPU alone.
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const Types& types, const libkineto::Config& /*config*/) override {
    const uint32_t asked = mask_of(types);
    return (asked & ~kCalls) != 0 ? std::make_unique<Session>(asked) : nullptr;
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t /*begin*/, int64_t /*duration*/, const Types& types,
                                                                 const libkineto::Config& config) override {
    return configure(types, config);
  }

 private:
  std::string name_ = rd_backend_name();
  Types types_{kTypes.begin(), kTypes.end()};
};

REGISTER_PRIVATEUSE1_PROFILER(Profiler);

}  // namespace
}  // namespace rustdev

#endif
