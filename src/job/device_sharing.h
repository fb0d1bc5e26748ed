#pragma once

// How many ranks of a job have their memory on the same device: each of them has its share of it.

#include <cstdint>
#include <span>
#include <string>

#include "job/process_context.h"

namespace dtrain::job {

// The ranks on the device of one of them, and whether that one is the first there.
struct Sharing {
  int64_t ranks = 1;
  bool first = true;
};

// `devices`: of each rank, a name that no other device of the job has. Pure.
Sharing sharing_of(std::span<const std::string> devices, int rank);

// That of this rank. Ranks on a CPU share the memory of their host. A GPU is known by its UUID, not
// by its number: each rank may see its own alone. Collective.
Sharing sharing_of_own_device(const ProcessContext&);

}  // namespace dtrain::job
