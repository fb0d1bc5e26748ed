#include "core/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace dtrain {

int usable_cores() {
  cpu_set_t mask;
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0) return CPU_COUNT(&mask);
  // More cores than the mask has bits
  return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, HOST_NAME_MAX) == 0 ? name : "localhost";
}

}  // namespace dtrain
