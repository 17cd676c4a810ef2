// Mapping from rd_status to c10's exception types.
#include "check.h"

namespace rustdev {

void throw_status(rd_status status) {
  const std::string text = rd_last_error();
  const c10::SourceLocation here{__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  switch (status) {
    case RD_OUT_OF_MEMORY:
      throw c10::OutOfMemoryError(here, text);
    case RD_UNSUPPORTED:
      throw c10::NotImplementedError(here, text);
    case RD_TASK_FAILED:
      throw c10::AcceleratorError(here, status, text);
    case RD_INVALID_VALUE:
      throw c10::ValueError(here, text);
    default:
      throw c10::Error(here, text);
  }
}

}  // namespace rustdev
