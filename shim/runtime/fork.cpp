// Fork handler: marks the runtime as unusable in a forked child, which has none of the parent's threads.
#include <pthread.h>

#include "rustdev.h"

namespace {

[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, rd_fork_child);

}  // namespace
