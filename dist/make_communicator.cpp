#include "dist/make_communicator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/check.h"
#include "core/log.h"
#include "device/device.h"
#include "dist/agree.h"
#include "dist/hierarchical_communicator.h"
#include "dist/lone_communicator.h"
#include "dist/mpi_communicator.h"
#include "dist/nccl_communicator.h"
#include "dist/object_collectives.h"
#include "dist/shared_memory_communicator.h"
#include "dist/staged_communicator.h"

namespace dtrain::dist {
namespace {

struct FixedRankDevice {
  char node[256] = "", uuid[64] = "", bus_id[64] = "";
  int host = 0;
};

template <size_t size>
void put(char (&field)[size], const std::string& text) {
  std::memcpy(field, text.data(), std::min(text.size(), size - 1));
}

std::vector<RankDevice> devices_by_rank(Communicator& host, const World& world, at::Device device) {
  FixedRankDevice mine;
  put(mine.node, world.node);
  mine.host = world.host;
  if (!device.is_cpu()) {
    const device::Properties gpu = device::properties(device);
    put(mine.uuid, gpu.uuid);
    put(mine.bus_id, gpu.pci_bus_id);
  }
  std::vector<RankDevice> devices;
  for (const FixedRankDevice& d : all_gather_object(host, mine)) {
    devices.push_back({d.node, d.uuid, d.bus_id, d.host});
  }
  return devices;
}

bool share_one_gpu(const RankDevice& a, const RankDevice& b) {
  return a.uuid == b.uuid || (a.host == b.host && a.bus_id == b.bus_id);
}

// "rank 0 and rank 1 share one GPU (0000:01:00 of node7)", or "".
std::string shared_gpu(std::span<const RankDevice> by_rank) {
  for (size_t a = 0; a < by_rank.size(); ++a) {
    for (size_t b = a + 1; b < by_rank.size(); ++b) {
      if (!share_one_gpu(by_rank[a], by_rank[b])) continue;
      return str("rank ", a, " and rank ", b, " share one GPU (", by_rank[a].bus_id, " of ",
                 by_rank[a].node, ")");
    }
  }
  return "";
}

bool on_one_host(std::span<const RankDevice> by_rank) {
  return std::all_of(by_rank.begin(), by_rank.end(),
                     [&](const RankDevice& d) { return d.host == by_rank[0].host; });
}

std::vector<RankPlace> places_of_ranks(std::span<const RankDevice> by_rank) {
  std::vector<int> hosts;
  for (const RankDevice& device : by_rank) hosts.push_back(device.host);
  return places_of(hosts);
}

void check_one_kind(std::span<const RankDevice> by_rank) {
  for (size_t rank = 1; rank < by_rank.size(); ++rank) {
    if (by_rank[rank].is_cpu() == by_rank[0].is_cpu()) continue;
    const auto [cpu, gpu] = by_rank[0].is_cpu() ? std::pair<size_t, size_t>(0, rank)
                                                : std::pair<size_t, size_t>(rank, 0);
    throw ConfigError(str("rank ", gpu, " on ", by_rank[gpu].node, " has a GPU and rank ", cpu,
                          " on ", by_rank[cpu].node,
                          " has none: all ranks need the same kind of device. Set device.type cpu, "
                          "or use only nodes with GPUs"));
  }
}

}  // namespace

config::Backend choose_host_backend(std::span<const RankDevice> by_rank) {
  if (on_one_host(by_rank)) return config::Backend::kSharedMemory;
  const std::vector<RankPlace> places = places_of_ranks(by_rank);
  const bool some_share =
      std::ranges::any_of(places, [](const RankPlace& place) { return place.local > 0; });
  return some_share ? config::Backend::kHierarchical : config::Backend::kMpi;
}

BackendChoice choose_backend(config::Backend requested, std::span<const RankDevice> by_rank,
                             bool nccl_available) {
  using config::Backend;
  check_one_kind(by_rank);
  const bool cpu = by_rank[0].is_cpu();
  const std::string shared = cpu ? "" : shared_gpu(by_rank);
  const auto need_cpu = [&](const char* instead) {
    if (cpu) return;
    throw ConfigError(str("dist.backend ", requested,
                          " reduces CPU tensors, but the ranks train on GPUs: set dist.backend ",
                          instead, ", or device.type cpu"));
  };
  switch (requested) {
    case Backend::kStaged:
      return {requested, ""};
    case Backend::kMpi:
      need_cpu("staged (GPU tensors over MPI, through the host)");
      return {requested, ""};
    case Backend::kSharedMemory:
      need_cpu("nccl or staged");
      if (!on_one_host(by_rank)) {
        throw ConfigError(
            "dist.backend shared_memory: the ranks are on several hosts, which share no memory: "
            "set dist.backend hierarchical, which shares it within each host, or mpi");
      }
      return {requested, ""};
    case Backend::kHierarchical:
      need_cpu("nccl or staged");
      return {requested, ""};
    case Backend::kNccl:
      if (cpu) {
        throw DeviceError(
            "dist.backend nccl needs a GPU, but the ranks train on the CPU: set dist.backend mpi "
            "or auto");
      }
      if (!nccl_available)
        throw DeviceError(
            "dist.backend nccl: this dtrain was built without NCCL; set dist.backend staged");
      if (!shared.empty()) {
        throw ConfigError(
            str("dist.backend nccl: ", shared,
                ", which NCCL refuses. Start one rank per GPU, or set dist.backend staged"));
      }
      return {requested, ""};
    case Backend::kAuto:
      break;
  }
  if (by_rank.size() == 1) return {std::nullopt};
  if (cpu) return {choose_host_backend(by_rank), ""};
  if (!nccl_available) {
    return {Backend::kStaged,
            "this dtrain was built without NCCL: gradients travel through the host"};
  }
  if (!shared.empty()) {
    return {
        Backend::kStaged,
        str(shared,
            ", which NCCL refuses: gradients travel through the host. One rank per GPU is faster")};
  }
  return {Backend::kNccl, ""};
}

std::unique_ptr<MeteredCommunicator> make_host_communicator(const World& world) {
  std::unique_ptr<Communicator> host = make_mpi_communicator();
  DTRAIN_CHECK(host->rank() == world.rank && host->size() == world.size);
  return make_metered_communicator(std::move(host));
}

namespace {

// Of the ranks of this host: none to talk to where there is one. DeviceError on all ranks, of the
// other hosts too.
std::unique_ptr<Communicator> make_within_host(Communicator& host,
                                               std::span<const RankPlace> places, RankPlace mine) {
  SharedMemoryOptions options{.beside_compute = true};
  for (size_t rank = 0; rank < places.size(); ++rank) {
    if (places[rank].host == mine.host) options.names.push_back(static_cast<int>(rank));
  }
  const std::unique_ptr<Communicator> ranks = make_mpi_communicator({.group = mine.host});
  std::unique_ptr<Communicator> within;
  std::string failure;
  try {
    within = ranks->size() == 1 ? make_lone_communicator()
                                : make_shared_memory_communicator(*ranks, options);
  } catch (const DeviceError& error) {
    failure = error.what();
  }
  agree_on_devices(host, failure);
  return within;
}

std::unique_ptr<Communicator> make_hierarchical(Communicator& host, const World& world,
                                                std::vector<RankPlace> places) {
  const RankPlace mine = places[static_cast<size_t>(world.rank)];
  std::unique_ptr<Communicator> within = make_within_host(host, places, mine);
  std::unique_ptr<Communicator> between =
      make_mpi_communicator({.group = mine.local, .order = mine.host});
  if (mine.local >= least_ranks_of_a_host(places)) between.reset();
  return make_hierarchical_communicator(world.rank, std::move(places), std::move(within),
                                        std::move(between));
}

// `kind`: one of those of choose_host_backend(). `host` carries what the ranks tell each
// other. Collective.
std::unique_ptr<Communicator> make_for_host_tensors(config::Backend kind, Communicator& host,
                                                    const World& world,
                                                    std::span<const RankDevice> by_rank,
                                                    bool beside_compute) {
  if (kind == config::Backend::kSharedMemory) {
    return make_shared_memory_communicator(host, {.beside_compute = beside_compute});
  }
  if (kind == config::Backend::kHierarchical)
    return make_hierarchical(host, world, places_of_ranks(by_rank));
  return make_mpi_communicator();
}

}  // namespace

void keep_nccl_graphs_plain() { ::setenv("NCCL_GRAPH_REGISTER", "0", /*overwrite=*/0); }

void order_nccl_communicators() { ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0); }

std::unique_ptr<MeteredCommunicator> make_gradient_communicator(Communicator& host,
                                                                const config::Dist& dist,
                                                                const World& world,
                                                                at::Device device) {
  DTRAIN_CHECK(device.is_cpu() || device.has_index(), "a GPU needs an index");
  using config::Backend;
  const std::vector<RankDevice> by_rank = devices_by_rank(host, world, device);
  const BackendChoice choice = choose_backend(dist.backend, by_rank, nccl_available());
  if (world.rank == 0 && !choice.warning.empty()) log::warning(choice.warning);
  if (!choice.backend) return make_lone_communicator();
  if (choice.backend == Backend::kNccl)
    return make_nccl_communicator(make_host_communicator(world), device);
  const bool staged = choice.backend == Backend::kStaged;
  const Backend kind = staged ? choose_host_backend(by_rank) : *choice.backend;
  std::unique_ptr<Communicator> carrier;
  try {
    carrier = make_for_host_tensors(kind, host, world, by_rank, /*beside_compute=*/staged);
  } catch (const DeviceError& error) {  // on all ranks alike
    if (dist.backend == kind) throw;
    if (world.rank == 0)
      log::warning(str("gradients travel over MPI, which is slower: ", error.what()));
    carrier = make_mpi_communicator();
  }
  std::unique_ptr<MeteredCommunicator> metered = make_metered_communicator(std::move(carrier));
  return staged ? make_staged_communicator(std::move(metered), device) : std::move(metered);
}

}  // namespace dtrain::dist
