// Memory that several processes use: what the host writes to it outside of any stream.
#pragma once

#include "rustdev.h"

namespace rustdev {

// For the time of a scope this thread writes to device memory itself; it waits for no stream there. A segment whose memory becomes
// that of several processes is copied while no thread does.
class HostWrite {
 public:
  HostWrite() { rd_host_write_begin(); }
  HostWrite(const HostWrite&) = delete;
  HostWrite& operator=(const HostWrite&) = delete;
  ~HostWrite() { rd_host_write_end(); }
};

}  // namespace rustdev
