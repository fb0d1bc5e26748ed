#pragma once

// How much memory of its device a rank may use while it is tuned.

#include <cstdint>
#include <string>

#include "job/process_context.h"

namespace dtrain::tune {

struct Budget {
  int64_t bytes = 0;  // device memory for one rank; the least of all ranks
  // Host memory at which a process of trial is ended: above the budget, to learn its need
  int64_t kill_bytes = 0;
  int64_t host_bytes = 0;        // what such a process may use of the host at all
  bool first_on_device = false;  // this rank tries for all ranks that share its device
  std::string of_what;           // for messages: "the host's memory", "an NVIDIA T4"
};

// Shares of what is there. `usable`: bytes; `sharing`: ranks that use the same. Pure.
int64_t share_of_memory(int64_t usable, int64_t sharing);

// `given`: bytes of a rank, 0: none are given. On the CPU: what the host and its control group have
// left, over the local ranks; on a GPU: its memory, over the ranks that use it. Collective.
Budget agree_on_budget(job::ProcessContext&, int64_t given);

}  // namespace dtrain::tune
