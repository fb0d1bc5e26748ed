#include "plan/all_reduce_cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace dtrain::plan {
namespace {

enum Algorithm { kRing, kTree, kAlgorithms };
enum Protocol { kLowLatency, kLowLatency128, kSimple, kProtocols };
constexpr std::array<Algorithm, 2> kAllAlgorithms = {kRing, kTree};
constexpr std::array<Protocol, 3> kAllProtocols = {kLowLatency, kLowLatency128, kSimple};

// NCCL's latencies in µs: of an operation, and of each hop over NVLink, PCIe and a network.
using ByProtocol = std::array<double, kProtocols>;
constexpr std::array<ByProtocol, kAlgorithms> kBase = {{{6.6, 14, 8.4}, {6.8, 14, 8.4}}};
constexpr std::array<ByProtocol, kAlgorithms> kNvlinkHop = {{{0.6, 1.9, 3.4}, {0.6, 1.25, 4}}};
constexpr std::array<ByProtocol, kAlgorithms> kPcieHop = {{{1, 2.5, 5.7}, {1, 1.9, 4}}};
constexpr std::array<ByProtocol, kAlgorithms> kNetworkHop = {{{2.7, 4, 14}, {5, 8.5, 14}}};
// Share of the bandwidth: the rest are flags
constexpr ByProtocol kPayload = {0.5, 120.0 / 128, 1};
constexpr double kRingPlateau = 1.4;  // latency factor of a ring between nodes, for large messages
constexpr double kTreeShare = 0.92;   // bandwidth of a tree divided by that of a ring

double hop_seconds(const Link& link, Algorithm algorithm, Protocol protocol) {
  switch (link.kind) {
    case LinkKind::kNvlink:
      return kNvlinkHop[algorithm][protocol] * 1e-6;
    case LinkKind::kPcie:
      return kPcieHop[algorithm][protocol] * 1e-6;
    case LinkKind::kNetwork:
      return kNetworkHop[algorithm][protocol] * 1e-6;
    case LinkKind::kHost:
    case LinkKind::kGiven:
      break;
  }
  return link.hop_seconds;
}

// Trees do not fill the links with messages of medium size, from which NCCL takes half of
// their bandwidth.
double filled_by_tree(double bytes) {
  struct Knot {
    double log2_bytes, share;
  };
  constexpr std::array<Knot, 5> kKnots = {{{12, 0.9}, {17, 0.5}, {22, 0.5}, {27, 0.9}, {28, 1}}};
  const double at = std::log2(std::max(bytes, 1.0));
  if (at <= kKnots.front().log2_bytes) return kKnots.front().share;
  for (size_t i = 1; i < kKnots.size(); ++i) {
    const Knot &low = kKnots[i - 1], &high = kKnots[i];
    if (at <= high.log2_bytes) {
      return low.share +
             (high.share - low.share) * (at - low.log2_bytes) / (high.log2_bytes - low.log2_bytes);
    }
  }
  return 1;
}

// The last node may have fewer ranks than the others: the full ones are the bottleneck.
struct Shape {
  double ranks, nodes, per_node, on_last;
  bool is_one_node() const { return nodes == 1; }
};

Shape shape_of(const Fabric& fabric, int64_t ranks) {
  const int64_t nodes = fabric.nodes(ranks), before_last = (nodes - 1) * fabric.ranks_per_node;
  return {static_cast<double>(ranks), static_cast<double>(nodes),
          static_cast<double>(std::min(ranks, fabric.ranks_per_node)),
          static_cast<double>(ranks - before_last)};
}

// Of one rank inside a node, while all of its ranks send.
double inside_bandwidth(const Fabric& fabric, double on_node) {
  return fabric.inside.bytes_per_second / (fabric.inside.shared ? on_node : 1);
}

// Of a ring or a tree through all ranks: its slowest link. Between nodes it is that of a whole
// node, which one chain of messages enters and leaves.
double chain_bandwidth(const Fabric& fabric, const Shape& shape) {
  const double between = shape.is_one_node() ? std::numeric_limits<double>::infinity()
                                             : fabric.between.bytes_per_second;
  if (shape.per_node <= 1) return between;
  return std::min(inside_bandwidth(fabric, shape.per_node), between);
}

double by_nccl(const Fabric& fabric, const Shape& shape, double bytes, Algorithm algorithm,
               Protocol protocol) {
  const double inside = hop_seconds(fabric.inside, algorithm, protocol);
  const double between = hop_seconds(fabric.between, algorithm, protocol);
  const bool is_given =
      (shape.is_one_node() ? fabric.inside : fabric.between).kind == LinkKind::kGiven;
  // A measured hop has its share of it
  double latency = is_given ? 0 : kBase[algorithm][protocol] * 1e-6;
  const double bandwidth = chain_bandwidth(fabric, shape) * kPayload[protocol];
  if (algorithm == kRing) {
    const double steps = 2 * (shape.ranks - 1), between_steps = 2 * (shape.nodes - 1);
    latency += (steps - between_steps) * inside + between_steps * between;
    if (protocol == kSimple && !shape.is_one_node() && !is_given && bytes >= shape.ranks * 4096)
      latency *= kRingPlateau;
    return latency + steps / shape.ranks * bytes / bandwidth;
  }
  latency += 2 * ((shape.per_node - 1) * inside + std::log2(shape.nodes) * between);
  return latency + 2 * bytes / (bandwidth * kTreeShare * filled_by_tree(bytes));
}

// A given link has the latency and the bandwidth of a ring, which is what a measurement fits: no
// shares of protocols and trees on top of them.
bool is_possible(const Fabric& fabric, const Shape& shape, Algorithm algorithm, Protocol protocol) {
  const bool is_given = (shape.per_node > 1 && fabric.inside.kind == LinkKind::kGiven) ||
                        (!shape.is_one_node() && fabric.between.kind == LinkKind::kGiven);
  if (is_given) return algorithm == kRing && protocol == kSimple;
  return protocol != kLowLatency128 || fabric.inside.kind == LinkKind::kNvlink;
}

double fastest_of_nccl(const Fabric& fabric, const Shape& shape, double bytes) {
  double best = std::numeric_limits<double>::infinity();
  for (const Protocol protocol : kAllProtocols) {
    for (const Algorithm algorithm : kAllAlgorithms) {
      if (!is_possible(fabric, shape, algorithm, protocol)) continue;
      best = std::min(best, by_nccl(fabric, shape, bytes, algorithm, protocol));
    }
  }
  return best;
}

// The ranks of a node add up in shared memory; of several nodes, each exchanges the sum with the
// others, and gives what it receives to its ranks, which is half as much work as adding up. The
// stages are pipelined, so that the slower of memory and network decides.
double by_hosts(const Fabric& fabric, const Shape& shape, double bytes) {
  const double others = shape.per_node - 1, passes = shape.is_one_node() ? 2 : 3;
  const double inside =
      passes * others / shape.per_node * bytes / inside_bandwidth(fabric, shape.per_node);
  const double between =
      2 * (shape.nodes - 1) / shape.nodes * bytes / fabric.between.bytes_per_second;
  const double hop_inside = hop_seconds(fabric.inside, kRing, kSimple);
  const double hop_between = fabric.between.hop_seconds;  // NCCL's hops are those of GPUs
  return std::max(inside, between) + passes * others * hop_inside +
         2 * (shape.nodes - 1) * hop_between;
}

// Two rounds; in each, every rank sends 1/n of the bytes to each other rank, all at once.
// `on_node`: ranks on the node of one that is looked at.
double by_mpi(const Fabric& fabric, const Shape& shape, double bytes, double on_node) {
  const double slice = bytes / shape.ranks;
  const double to_node = on_node - 1, to_others = shape.ranks - on_node;
  const double inside = to_node * slice / inside_bandwidth(fabric, on_node);
  const double between = on_node * to_others * slice / fabric.between.bytes_per_second;
  const double hop_inside = hop_seconds(fabric.inside, kRing, kSimple);
  return 2 * (std::max(inside, between) + to_node * hop_inside +
              to_others * fabric.between.hop_seconds);
}

}  // namespace

double all_reduce_seconds(const Fabric& fabric, int64_t ranks, double bytes) {
  if (ranks <= 1) return 0;
  const Shape shape = shape_of(fabric, ranks);
  switch (fabric.library) {
    case Library::kNccl:
      return fastest_of_nccl(fabric, shape, bytes);
    case Library::kHierarchical:
      return by_hosts(fabric, shape, bytes);
    case Library::kMpi:
      break;
  }
  // A rank on a full node shares its network; one that is alone on its node has more messages to
  // other nodes.
  return std::max(by_mpi(fabric, shape, bytes, shape.per_node),
                  by_mpi(fabric, shape, bytes, shape.on_last));
}

double all_reduce_sent(int64_t ranks, double bytes) {
  if (ranks <= 1) return 0;
  const auto n = static_cast<double>(ranks);
  return 2 * (n - 1) / n * bytes;
}

}  // namespace dtrain::plan
