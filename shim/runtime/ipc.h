// Accesses of the host to device memory outside of any stream.
#pragma once

#include "rustdev.h"

namespace rustdev {

// A scope in which this thread reads or writes device memory itself; it must not wait for a stream. The copy of a segment into
// shared memory excludes such scopes, and isolated memory is accessible while there is one.
class HostAccess {
 public:
  HostAccess() { rd_host_write_begin(); }
  HostAccess(const HostAccess&) = delete;
  HostAccess& operator=(const HostAccess&) = delete;
  ~HostAccess() { rd_host_write_end(); }
};

}  // namespace rustdev
