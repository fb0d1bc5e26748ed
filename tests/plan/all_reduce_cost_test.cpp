#include "plan/all_reduce_cost.h"

#include <gtest/gtest.h>

namespace dtrain::plan {
namespace {

Fabric fabric(const char* interconnect, int64_t ranks_per_node, Library library = Library::kNccl) {
  const Interconnect links = parse_interconnect(interconnect, nullptr, library == Library::kNccl);
  return {.inside = links.inside,
          .between = links.between,
          .ranks_per_node = ranks_per_node,
          .library = library};
}

TEST(AllReduceCost, NothingTravelsOnOneRank) {
  EXPECT_EQ(all_reduce_seconds(fabric("nvlink4", 8), 1, 1e9), 0);
  EXPECT_EQ(all_reduce_sent(1, 1e9), 0);
  EXPECT_DOUBLE_EQ(all_reduce_sent(2, 1e9), 1e9);
  EXPECT_DOUBLE_EQ(all_reduce_sent(8, 8), 14);
}

// NCCL's own formula, for sizes at which one term decides.
TEST(AllReduceCost, OfNcclIsItsLatencyOrItsBandwidth) {
  const Fabric nvlink = fabric("nvlink4", 8), pcie = fabric("pcie4", 8);
  EXPECT_NEAR(all_reduce_seconds(nvlink, 2, 4), (6.6 + 2 * 0.6) * 1e-6, 1e-9)
      << "LL, one hop there and one back";
  EXPECT_NEAR(all_reduce_seconds(pcie, 8, 4), (6.6 + 14 * 1) * 1e-6, 1e-9);
  const double large = 1e9;
  EXPECT_NEAR(all_reduce_seconds(nvlink, 8, large), 2 * 7.0 / 8 * large / (18 * 20.6e9), 1e-4);
  EXPECT_NEAR(all_reduce_seconds(pcie, 8, large), 2 * 7.0 / 8 * large / 24e9, 2e-4);
}

TEST(AllReduceCost, BetweenNodesTheNetworkDecides) {
  const Fabric nodes = fabric("nvlink4+ib100", 8);
  const double large = 1e9;
  const double seconds = all_reduce_seconds(nodes, 16, large);
  EXPECT_NEAR(seconds, 2 * 15.0 / 16 * large / 12e9, 2e-3);
  EXPECT_NEAR(all_reduce_seconds(fabric("nvlink4+4xib100", 8), 16, large), seconds / 4, 2e-3)
      << "four times the links";
  EXPECT_DOUBLE_EQ(all_reduce_seconds(nodes, 8, large),
                   all_reduce_seconds(fabric("nvlink4+10gbe", 8), 8, large))
      << "one node has no network";
}

TEST(AllReduceCost, ATreeKeepsTheLatencyOfManyNodesSmall) {
  const Fabric nodes = fabric("nvlink4+ib100", 8);
  const double ring = (6.6 + 2.0 * (511 - 63) * 0.6 + 2.0 * 63 * 2.7) * 1e-6;
  const double tree = (6.8 + 2 * (7 * 0.6 + 6 * 5)) * 1e-6;
  EXPECT_LT(tree, ring / 5);
  EXPECT_NEAR(all_reduce_seconds(nodes, 512, 4), tree, 1e-8);
}

TEST(AllReduceCost, GrowsWithSizeAndNeverShrinksWithRanks) {
  for (const char* interconnect : {"nvlink4+ib400", "pcie4-host+25gbe", "pcie3+40gbe", "5,10"}) {
    const Fabric f = fabric(interconnect, 8);
    for (const int64_t ranks : {2, 8, 16, 64, 512, 4096}) {
      double before = 0;
      for (double bytes = 4; bytes < 4e9; bytes *= 2) {
        const double seconds = all_reduce_seconds(f, ranks, bytes);
        EXPECT_GE(seconds, before * 0.999) << interconnect << " " << ranks << " " << bytes;
        EXPECT_GE(seconds, all_reduce_seconds(f, ranks / 2, bytes) * 0.95)
            << interconnect << " " << ranks << " " << bytes;
        before = seconds;
      }
    }
  }
}

TEST(AllReduceCost, WithoutPeerCopiesAllRanksShareTheHost) {
  const Fabric host = fabric("pcie4-host", 8);
  const double large = 1e9;
  EXPECT_NEAR(all_reduce_seconds(host, 2, large), large / 12e9, 1e-3);
  EXPECT_NEAR(all_reduce_seconds(host, 8, large), 2 * 7.0 / 8 * large / 3e9, 1e-3);
}

TEST(AllReduceCost, AGivenLinkIsTheAlphaBetaModel) {
  const Fabric given = fabric("5,10", 1);
  const double bytes = 64e6;
  EXPECT_NEAR(all_reduce_seconds(given, 4, bytes), 6 * 5e-6 + 2 * 3.0 / 4 * bytes / 10e9, 1e-9);
  const Fabric mpi = fabric("5,10", 1, Library::kMpi);
  EXPECT_NEAR(all_reduce_seconds(mpi, 4, bytes), 6 * 5e-6 + 2 * 3.0 / 4 * bytes / 10e9, 1e-9);
}

// As many bytes pass through the full node, whatever the last node has.
TEST(AllReduceCost, ANodeThatIsNotFullMakesNothingFaster) {
  for (const char* interconnect : {"pcie4-host+ib400", "pcie4-host+10gbe", "nvlink4+ib100"}) {
    const Fabric f = fabric(interconnect, 8);
    for (const double bytes : {4.0, 1e6, 1e9}) {
      const double eight = all_reduce_seconds(f, 8, bytes);
      for (const int64_t ranks : {9, 12, 17}) {
        EXPECT_GE(all_reduce_seconds(f, ranks, bytes), eight)
            << interconnect << " " << ranks << " " << bytes;
      }
    }
  }
}

// What was measured over NCCL between these ranks is planned for them again, whatever the size.
TEST(AllReduceCost, AMeasuredLinkGivesBackWhatWasMeasured) {
  const dist::CostFit fit{.latency = 60e-6, .seconds_per_byte = 1e-10};
  for (const int64_t ranks : {2, 4, 8, 64}) {
    const Link link = link_of_fit(fit, ranks);
    for (const int64_t per_node : {1, 8}) {
      const Fabric measured{
          .inside = link, .between = link, .ranks_per_node = per_node, .library = Library::kNccl};
      for (const double bytes : {4.0, 1e4, 1e6, 1e9}) {
        EXPECT_NEAR(all_reduce_seconds(measured, ranks, bytes), 60e-6 + bytes * 1e-10,
                    1e-9 + 1e-12 * bytes)
            << ranks << " " << bytes;
      }
    }
  }
}

// CPU ranks: those of a node in its memory, and the nodes once for all of their ranks. The slower
// of both decides.
TEST(AllReduceCost, OfCpusLeavesANodeOnce) {
  const double bytes = 100e6;
  const auto seconds = [&](const char* links, int64_t per_node, int64_t ranks) {
    return all_reduce_seconds(fabric(links, per_node, Library::kHierarchical), ranks, bytes);
  };
  EXPECT_NEAR(seconds("shm+10gbe", 1, 16), 2 * (15.0 / 16 * bytes / 1.2e9 + 15 * 25e-6), 1e-6);
  EXPECT_NEAR(seconds("shm+1gbe", 8, 16), 2 * (1.0 / 2 * bytes / 0.12e9 + 25e-6) + 21 * 1.5e-6,
              1e-6);
  EXPECT_NEAR(seconds("shm+200gbe", 8, 16),
              3 * 7.0 / 8 * bytes * 8 / 25e9 + 21 * 1.5e-6 + 2 * 14e-6, 1e-6)
      << "eight ranks share the memory";
  EXPECT_NEAR(seconds("shm+10gbe", 8, 2), 2 * (1.0 / 2 * bytes * 2 / 25e9 + 1.5e-6), 1e-6)
      << "one node";
}

// Every rank exchanges slices with every other: the ranks of a node send most of them through its
// one network.
TEST(AllReduceCost, OfMpiLeavesANodeOncePerRank) {
  const double bytes = 100e6;
  const double alone = all_reduce_seconds(fabric("shm+10gbe", 1, Library::kMpi), 16, bytes);
  const double eight = all_reduce_seconds(fabric("shm+10gbe", 8, Library::kMpi), 16, bytes);
  EXPECT_NEAR(alone, 2 * (15.0 / 16 * bytes / 1.2e9 + 15 * 25e-6), 1e-6);
  EXPECT_NEAR(eight, 2 * (8 * 8.0 / 16 * bytes / 1.2e9 + 7 * 1.5e-6 + 8 * 25e-6), 1e-6);
  // Eight ranks and four: both networks carry 8 × 4 slices, and the four have more messages to
  // send there.
  const double twelve = all_reduce_seconds(fabric("shm+10gbe", 8, Library::kMpi), 12, bytes);
  EXPECT_NEAR(twelve, 2 * (8 * 4.0 / 12 * bytes / 1.2e9 + 3 * 1.5e-6 + 8 * 25e-6), 1e-6);
}

}  // namespace
}  // namespace dtrain::plan
