// RD_CHECK: turns a failed rd_* status into the exception that PyTorch users expect. Also the way back, for callbacks of Rust, and
// the ownership of Rust's handles.
#pragma once

#include <c10/util/Exception.h>

#include "rustdev.h"

namespace rustdev {

// Throws for a status other than RD_OK, with the text of rd_last_error().
[[noreturn]] void throw_status(rd_status status);

// Sets the Python exception type of RD_RACE, which is never freed.
void set_race_type(void* type);

// A callback of Rust: runs `body` with its context. No exception may unwind through Rust: the first one is stored in the context's
// `failure`, to be thrown after the call.
template <class Context, auto body, class Result, class... Args>
Result serve(void* given, Args... args) {
  auto& context = *static_cast<Context*>(given);
  rd_status status = RD_OK;
  try {
    body(context, args...);
  } catch (...) {
    context.failure = context.failure ? context.failure : std::current_exception();
    status = RD_INTERNAL;
  }
  return static_cast<Result>(status);
}

// A handle of Rust, or null, which `destroy` releases.
template <auto destroy>
struct Destroy {
  template <class T>
  void operator()(T* handle) const {
    destroy(handle);
  }
};
template <class T, auto destroy>
using Owned = std::unique_ptr<T, Destroy<destroy>>;

}  // namespace rustdev

#define RD_CHECK(call)                             \
  do {                                             \
    const rd_status rd_check_status_ = (call);     \
    if (C10_UNLIKELY(rd_check_status_ != RD_OK)) { \
      ::rustdev::throw_status(rd_check_status_);   \
    }                                              \
  } while (0)
