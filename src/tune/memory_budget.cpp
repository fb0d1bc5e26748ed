#include "tune/memory_budget.h"

#include <algorithm>

#include "device/device.h"
#include "dist/object_collectives.h"
#include "job/device_sharing.h"
#include "os/facts.h"

namespace dtrain::tune {
namespace {

constexpr double kUsed = 0.9;   // the rest is for evaluations, checkpoints and other processes
constexpr int64_t kBeyond = 2;  // times the budget that a trial may use, if the host has it

}  // namespace

int64_t share_of_memory(int64_t usable, int64_t sharing) {
  return static_cast<int64_t>(kUsed * static_cast<double>(usable)) / std::max<int64_t>(1, sharing);
}

Budget agree_on_budget(job::ProcessContext& process, int64_t given) {
  const device::Properties device = device::properties(process.device);
  const job::Sharing sharing = job::sharing_of_own_device(process);
  const int64_t host = os::read_usable_memory().value_or(device::properties(at::kCPU).memory_bytes);
  Budget budget;
  budget.first_on_device = sharing.first;
  budget.host_bytes = share_of_memory(host, 1);
  if (process.device.is_cpu()) {
    budget.of_what = "the host's memory";
    budget.bytes = share_of_memory(host, sharing.ranks);
  } else {
    budget.of_what = "the memory of the " + device.name;
    budget.bytes = share_of_memory(device.memory_bytes, sharing.ranks);
  }
  if (given > 0) budget.bytes = given;
  const std::vector<int64_t> all = dist::all_gather_object(process.host, budget.bytes);
  budget.bytes = *std::min_element(all.begin(), all.end());
  const bool on_host = process.device.is_cpu();
  budget.kill_bytes =
      on_host ? std::min(kBeyond * budget.bytes, budget.host_bytes) : budget.host_bytes;
  budget.kill_bytes =
      std::max(budget.kill_bytes, on_host ? std::min(budget.bytes, budget.host_bytes) : int64_t{0});
  return budget;
}

}  // namespace dtrain::tune
