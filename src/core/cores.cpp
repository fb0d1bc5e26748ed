#include "core/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace dtrain {

int usable_cores() {
  cpu_set_t mask;
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0) return CPU_COUNT(&mask);
  return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));  // more than a mask has bits
}

}  // namespace dtrain
