#pragma once

// SharedMemoryOptions::make_unnamed of a kernel that has no memfd, or forbids it: what is shared is
// the file in /dev/shm.

#include <cerrno>

namespace dtrain::testing {

inline int no_memfd() {
  errno = ENOSYS;
  return -1;
}

}  // namespace dtrain::testing
