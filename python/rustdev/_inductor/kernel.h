// What every kernel that Inductor generates for the device begins with, behind PyTorch's cpp_prefix.h: the functions of the loaded
// runtime, parallel loops on its threads, and the task that a call becomes.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <tuple>

namespace rustdev {

// The runtime's functions, in the order of FUNCTIONS in kernels.py; shim/rustdev.h says what they do.
struct Runtime {
  int64_t (*stream_current)(int32_t device);
  int32_t (*stream_submit)(int32_t device, int64_t stream, const char* name, const void* accesses, size_t num_accesses,
                           uint64_t cost, bool (*run)(void*, char*, size_t), void* context, void (*destroy)(void*));
  int32_t (*parallel)(size_t count, uint64_t cost, void (*run)(void*, size_t), void* context);
  const char* (*last_error)();
};

static Runtime runtime;

// Into so many parts a parallel loop is divided, whatever the number of threads: sums have the same bits for any.
constexpr int64_t parts = RUSTDEV_PARTS;

// Iterations of the loops of a nest, counted through.
struct Span {
  int64_t begin;
  int64_t end;
};

// How often `for (x = offset; x < size; x += step)` runs.
inline int64_t trips(int64_t offset, int64_t size, int64_t step) { return size > offset ? (size - offset + step - 1) / step : 0; }

inline Span part_of(int64_t total, int64_t part) {
  const int64_t quotient = total / parts;
  const int64_t remainder = total % parts;
  const int64_t begin = part * quotient + std::min(part, remainder);
  return {begin, begin + quotient + (part < remainder ? 1 : 0)};
}

// What is left of `outer` in its iteration number `trip`, for the loops inside, which make `inner` iterations together.
inline Span inside(Span outer, int64_t trip, int64_t inner) {
  return {std::max<int64_t>(outer.begin - trip * inner, 0), std::min(outer.end - trip * inner, inner)};
}

// The iterations of a loop that a span reaches, where the loops inside make `inner` iterations together.
inline Span outermost(Span span, int64_t inner) {
  return inner == 0 ? Span{0, 0} : Span{span.begin / inner, (span.end + inner - 1) / inner};
}

// Runs `body(part)` for each part on the runtime's threads; `nanoseconds`: of one thread over everything. An exception in a part is
// thrown here, after all have ended: none may leave through the runtime.
template <class Body>
void parallel(double nanoseconds, const Body& body) {
  struct Team {
    const Body& body;
    std::atomic<bool> failed{false};
    std::exception_ptr error{};
  } team{body};
  const auto run = [](void* context, size_t part) {
    auto& team = *static_cast<Team*>(context);
    if (team.failed.load(std::memory_order_relaxed)) {
      return;
    }
    try {
      const Body body = team.body;  // a copy that nothing else can reach stays in registers
      body(static_cast<int>(part));
    } catch (...) {
      if (!team.failed.exchange(true)) {
        team.error = std::current_exception();
      }
    }
  };
  if (runtime.parallel(parts, static_cast<uint64_t>(nanoseconds), run, &team) != 0) {
    throw std::runtime_error(runtime.last_error());
  }
  if (team.error) {
    std::rethrow_exception(team.error);
  }
}

// Makes a call of the kernel a task on this thread's current stream of the device.
template <class... Parameters, class... Arguments>
void enqueue(void (*kernel)(Parameters...), double (*cost)(Parameters...), const char* name, int64_t device,
             Arguments... arguments) {
  struct Job {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> arguments;
  };
  const auto run = [](void* context, char* message, size_t capacity) {
    const auto& job = *static_cast<const Job*>(context);
    try {
      std::apply(job.kernel, job.arguments);
      return true;
    } catch (const std::exception& error) {
      std::snprintf(message, capacity, "%s", error.what());
    }
    return false;
  };
  const auto destroy = [](void* context) { delete static_cast<Job*>(context); };
  const auto index = static_cast<int32_t>(device);
  const auto nanoseconds = static_cast<uint64_t>(cost(arguments...));
  auto* job = new Job{kernel, {arguments...}};
  if (runtime.stream_submit(index, runtime.stream_current(index), name, nullptr, 0, nanoseconds, run, job, destroy) != 0) {
    throw std::runtime_error(runtime.last_error());
  }
}

// Numbers from 0 to 1: the first ones of at::Philox4_32(seed, 0, offset), by Philox4x32-10 (Salmon et al., Parallel Random Numbers:
// As Easy as 1, 2, 3, 2011) without state and branches. Loops are not vectorised in the generated code around.
template <size_t lanes>
__attribute__((optimize("tree-loop-vectorize"))) void uniform(uint32_t seed, const int64_t (&offset)[lanes],
                                                              float (&result)[lanes]) {
  for (size_t lane = 0; lane < lanes; ++lane) {
    uint32_t key0 = seed, key1 = 0;
    uint32_t c0 = static_cast<uint32_t>(offset[lane]), c1 = 0, c2 = 0, c3 = 0;
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const uint64_t product0 = uint64_t{0xD2511F53} * c0;
      const uint64_t product1 = uint64_t{0xCD9E8D57} * c2;
      c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ key0;
      c1 = static_cast<uint32_t>(product1);
      c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ key1;
      c3 = static_cast<uint32_t>(product0);
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
    result[lane] = uint32_to_uniform_float(c0);
  }
}

// Whether the lanes of a mask are set.
template <size_t size, class Lane>
__attribute__((optimize("tree-loop-vectorize"))) void write_flags(const Lane* lanes, bool* out) {
  for (size_t lane = 0; lane < size; ++lane) {
    out[lane] = lanes[lane] != 0;
  }
}

// All bits of a lane where a flag is set.
template <size_t size, class Lane>
__attribute__((optimize("tree-loop-vectorize"))) void read_flags(const bool* in, Lane* lanes) {
  for (size_t lane = 0; lane < size; ++lane) {
    lanes[lane] = -static_cast<Lane>(in[lane]);
  }
}

// Writes the first elements of a vector. Masks become bools in one pass; VecMask::store converts them lane by lane.
template <class Vector, class Element>
void store(const Vector& vector, Element* out, int64_t count) {
  vector.store(out, count);
}

template <class T, int N>
void store(const at::vec::VecMask<T, N>& mask, bool* out, int64_t count) {
  constexpr size_t size = at::vec::VectorizedN<T, N>::size();
  at::vec::int_same_size_t<T> lanes[size];
  static_cast<at::vec::VectorizedN<T, N>>(mask).store(lanes);
  if (count == static_cast<int64_t>(size)) {
    write_flags<size>(lanes, out);
  } else {
    std::transform(lanes, lanes + count, out, [](auto lane) { return lane != 0; });
  }
}

// Reads the first lanes of a mask from bools; VecMask::from converts them one by one.
template <class T, int N>
at::vec::VecMask<T, N> read_mask(const bool* in, int64_t count) {
  constexpr size_t size = at::vec::VectorizedN<T, N>::size();
  at::vec::int_same_size_t<T> lanes[size] = {};
  if (count == static_cast<int64_t>(size)) {
    read_flags<size>(in, lanes);
  } else {
    std::transform(in, in + count, lanes, [](bool flag) { return -static_cast<at::vec::int_same_size_t<T>>(flag); });
  }
  return at::vec::VectorizedN<T, N>::loadu(lanes);
}

}  // namespace rustdev

// Counts the changes of Runtime: a saved library for another one is not connected.
extern "C" __attribute__((visibility("default"))) const int32_t rustdev_runtime_version = 1;

// Called once, when the kernel has been loaded.
extern "C" __attribute__((visibility("default"))) void rustdev_connect(const rustdev::Runtime* runtime) {
  rustdev::runtime = *runtime;
}
