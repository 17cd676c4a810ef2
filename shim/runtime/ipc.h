// Memory that several processes use: what the host writes to it outside of any stream.
#pragma once

#include "rustdev.h"

namespace rustdev {

// For the time of a scope this thread reads or writes device memory itself; it waits for no stream there. A segment whose memory
// becomes that of several processes is copied while no thread does, and isolated memory is accessible as long as one does.
class HostAccess {
 public:
  HostAccess() { rd_host_write_begin(); }
  HostAccess(const HostAccess&) = delete;
  HostAccess& operator=(const HostAccess&) = delete;
  ~HostAccess() { rd_host_write_end(); }
};

}  // namespace rustdev
