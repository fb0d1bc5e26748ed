#include "dist/affinity.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <tuple>

#include "core/error.h"
#include "core/log.h"
#include "os/process_info.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::dist {
namespace {

using Cores = std::vector<int>;

std::optional<Cores> allowed_cores(pid_t process) {
  cpu_set_t set;
  if (::sched_getaffinity(process, sizeof set, &set) != 0) return std::nullopt;
  Cores cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

bool allow(const Cores& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

// The cores of the mpirun (or its daemon on this node) that started this process. It does not bind
// itself, so its mask is what the user, the container or Slurm allowed.
std::optional<Cores> cores_of_mpirun() {
  static constexpr std::array kNames = {"mpirun", "orterun", "mpiexec",
                                        "orted",  "prterun", "prted"};
  pid_t pid = ::getppid();
  while (pid > 0) {
    const std::optional<ProcessInfo> process = process_info(pid);
    if (!process) return std::nullopt;
    if (std::ranges::find(kNames, process->name) != kNames.end()) return allowed_cores(pid);
    pid = process->parent;
  }
  return std::nullopt;
}

int topology(int core, const char* what) {
  int value = 0;
  std::ifstream(str("/sys/devices/system/cpu/cpu", core, "/topology/", what)) >> value;
  return value;
}

Cores sorted_by_place(Cores cores) {
  std::vector<std::tuple<int, int, int>> places;  // socket, core of the socket, thread
  for (const int core : cores)
    places.emplace_back(topology(core, "physical_package_id"), topology(core, "core_id"), core);
  std::ranges::sort(places);
  std::transform(places.begin(), places.end(), cores.begin(),
                 [](const auto& place) { return std::get<2>(place); });
  return cores;
}

}  // namespace

Cores share_of(std::span<const int> cores, int local_rank, int local_size) {
  const auto count = static_cast<int64_t>(cores.size());
  if (count < local_size) return {cores.begin(), cores.end()};
  return {cores.begin() + count * local_rank / local_size,
          cores.begin() + count * (local_rank + 1) / local_size};
}

CoreShare within_quota(CoreShare share, double quota, int local_size) {
  const double most = quota * share.ranks / local_size;
  if (most < share.cores) share.cores = std::max(1, static_cast<int>(most));
  return share;
}

// LibTorch starts all of its threads at once (a pool beside those of OpenMP), and each waits busily
// for its first work: on 2 cores, 4096 threads took 55 s before the first step.
int most_threads(const CoreShare& share) {
  constexpr int kAlways = 64, kPerCore = 8;
  return std::max(kAlways, kPerCore * share.cores);
}

int computing_threads(int64_t wanted, std::string_view omp_num_threads, const CoreShare& share) {
  if (wanted > most_threads(share)) {
    throw ConfigError(
        str("--threads (device.threads): ", wanted, " threads on the ", share.cores,
            share.cores == 1 ? " core" : " cores",
            " that a rank may use would only wait for each other: use 0, which takes ",
            share.threads(), ", or at most ", most_threads(share)));
  }
  if (wanted > 0) return static_cast<int>(wanted);
  const std::optional<int> outermost =
      parse_number<int>(trimmed(omp_num_threads.substr(0, omp_num_threads.find(','))));
  return outermost && *outermost > 0 ? std::min(*outermost, share.threads()) : share.threads();
}

CoreShare widen_affinity(const World& world) {
  const std::optional<Cores> own = allowed_cores(0);
  if (!own) {
    // The machine has more cores than a mask has bits.
    return {static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))), world.local_size};
  }
  const auto own_count = static_cast<int64_t>(own->size());

  std::optional<Cores> node = cores_of_mpirun();
  if (!node) {
    const bool bound = own_count * world.local_size <= ::sysconf(_SC_NPROCESSORS_ONLN);
    if (world.local_size == 1 || bound) return {static_cast<int>(own_count), 1};
    node = own;
  }
  Cores share = share_of(sorted_by_place(*node), world.local_rank, world.local_size);
  std::ranges::sort(share);
  const int ranks = static_cast<int>(node->size()) < world.local_size ? world.local_size : 1;
  if (share == *own || !allow(share)) return {static_cast<int>(own_count), ranks};
  if (world.rank == 0) {
    log::info(str("cores per rank: ", share.size(), " of the ", node->size(), " that ",
                  world.local_size, world.local_size == 1 ? " rank" : " ranks", " on ", world.node,
                  " may use (the launcher gave ", own_count, ")"));
  }
  return {static_cast<int>(share.size()), ranks};
}

}  // namespace dtrain::dist
