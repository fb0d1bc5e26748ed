#include "job/device_sharing.h"

#include <algorithm>

#include "device/device.h"
#include "dist/object_collectives.h"
#include "text/strings.h"

namespace dtrain::job {

Sharing sharing_of(std::span<const std::string> devices, int rank) {
  const auto own = devices.begin() + rank;
  return {.ranks = std::ranges::count(devices, *own),
          .first = std::ranges::find(devices, *own) == own};
}

Sharing sharing_of_own_device(const ProcessContext& process) {
  // Several hosts may have the same name.
  const std::string own =
      process.device.is_cpu() ? str(process.world.host) : device::properties(process.device).uuid;
  return sharing_of(dist::all_gather_object(process.host, own), process.host.rank());
}

}  // namespace dtrain::job
