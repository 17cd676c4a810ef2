// RD_CHECK: turns a failed rd_* status into the exception that PyTorch users expect.
#pragma once

#include <c10/util/Exception.h>

#include "rustdev.h"

namespace rustdev {

// Throws for a status other than RD_OK, with the text of rd_last_error().
[[noreturn]] void throw_status(rd_status status);

// Sets the Python exception type of RD_RACE, which is never freed.
void set_race_type(void* type);

}  // namespace rustdev

#define RD_CHECK(call)                             \
  do {                                             \
    const rd_status rd_check_status_ = (call);     \
    if (C10_UNLIKELY(rd_check_status_ != RD_OK)) { \
      ::rustdev::throw_status(rd_check_status_);   \
    }                                              \
  } while (0)
