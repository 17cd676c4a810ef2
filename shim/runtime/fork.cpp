// A forked child has none of the parent's threads, so the runtime is told that it is unusable there.
#include <pthread.h>

#include "rustdev.h"

namespace {

[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, rd_fork_child);

}  // namespace
