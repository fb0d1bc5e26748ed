#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "fuzz/target.h"

namespace dtrain::testing {

std::string in_memory_file(const uint8_t* data, size_t size) {
  static const int file = ::memfd_create("input", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, 0) != 0) std::abort();
  for (size_t done = 0; done < size;) {
    const ssize_t written = ::pwrite(file, data + done, size - done, static_cast<off_t>(done));
    if (written <= 0) std::abort();
    done += static_cast<size_t>(written);
  }
  return "/proc/self/fd/" + std::to_string(file);
}

}  // namespace dtrain::testing
