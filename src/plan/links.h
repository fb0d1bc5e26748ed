#pragma once

// The links between ranks that a plan may name: what NVLink, PCIe and networks carry while an
// all-reduce fills them, not what is printed on their boxes. The figures are those that NCCL
// calculates with (src/graph/topo.h and tuning.cc of 2.28.9: bandwidth per NVLink by generation, 12
// GB/s for 16 lanes of PCIe 3 and for 100 Gbit/s). Pure.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dist/cost_fit.h"

namespace dtrain::plan {

enum class LinkKind { kNvlink, kPcie, kHost, kNetwork, kGiven };

struct Link {
  std::string name;  // a word of --interconnect: "nvlink4", "4xib100"
  LinkKind kind = LinkKind::kGiven;
  // Rate in each direction: of one rank inside a node, of a whole node between nodes; with
  // `shared`, of all ranks of a node, whose data pass through one memory (no peer-to-peer copies).
  double bytes_per_second = 0;
  // Latency of one message; NVLink and PCIe and networks of GPUs have those of NCCL's protocols.
  double hop_seconds = 0;
  bool shared = false;

  bool in_node() const {
    return kind == LinkKind::kNvlink || kind == LinkKind::kPcie || kind == LinkKind::kHost;
  }
};

const std::vector<Link>& known_links();

// What the measured cost of an all-reduce on `ranks` ranks (two or more) says of the link between
// two of them.
Link link_of_fit(const dist::CostFit&, int64_t ranks);

struct Interconnect {
  Link inside, between;       // the ranks of a node; nodes
  std::vector<Link> assumed;  // those of them that were not asked for
};

// "NAME", "COUNTxNAME", "ALPHA,BETA" (latency of a message in µs, bandwidth in GB/s), "measured",
// or two of them joined by '+': inside a node, then between nodes. A link of one kind alone is
// completed by a usual one of the other kind, for ranks with `gpus` or without; ALPHA,BETA and
// "measured" alone are both; "" is usual altogether. `measured`: for that word; nullptr: there is
// none, and the message says how to get one. UsageError that names the nearest link.
Interconnect parse_interconnect(std::string_view text, const Link* measured, bool gpus);

}  // namespace dtrain::plan
