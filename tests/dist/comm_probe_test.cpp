#include "dist/comm_probe.h"

#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <numeric>

#include "dist/lone_communicator.h"
#include "support/fake_clock.h"
#include "support/thread_world.h"

namespace dtrain::dist {
namespace {

using enum Collective;

constexpr std::array<Collective, 3> kOnTensors = {kAllReduce, kAllGather, kBroadcast};

// Passes everything to another communicator, and does with it what a bad network does.
class BadNetwork : public Communicator {
 public:
  explicit BadNetwork(Communicator& inner)
      : Communicator(inner.rank(), inner.size()), inner_(inner) {}
  bool corrupts = false;
  double latency = 0, seconds_per_byte = 0;  // of `clock`, by which all_reduce moves it
  const testing::FakeClock clock;
  std::vector<int64_t> sizes;  // in bytes, of all_reduce

  Work all_reduce(at::Tensor inout, ReduceOp op) override {
    inner_.all_reduce(inout, op).wait();
    if (inout.scalar_type() != at::kFloat) return {};
    sizes.push_back(static_cast<int64_t>(inout.nbytes()));
    const std::chrono::duration<double> takes(latency + static_cast<double>(inout.nbytes()) *
                                                            seconds_per_byte);
    clock.advance(std::chrono::round<Clock::Steady::duration>(takes));
    if (corrupts && rank() == 1) inout.select(0, inout.numel() - 1).add_(1);
    return {};
  }
  Work all_gather(at::Tensor out, at::Tensor in) override { return inner_.all_gather(out, in); }
  Work broadcast(at::Tensor inout, int root) override { return inner_.broadcast(inout, root); }
  void barrier() override { inner_.barrier(); }
  void abort(std::string_view reason) noexcept override { inner_.abort(reason); }
  std::string_view name() const override { return "bad"; }

 private:
  Communicator& inner_;
};

TEST(CommProbe, MeasuresEverySizeOfEveryOperation) {
  std::mutex mutex;
  std::vector<std::vector<ProbedSize>> of_ranks;
  run_thread_world(3, [&](Communicator& comm) {
    ProbeOptions options{.operations = {kOnTensors.begin(), kOnTensors.end()},
                         .sizes = {4, 600, 6000},
                         .seconds = 10,  // but few repetitions
                         .most_repetitions = 8,
                         .check_values = true};
    options.operations.push_back(kBarrier);
    const std::vector<ProbedSize> sizes = probe(comm, at::kCPU, options);
    const std::lock_guard lock(mutex);
    of_ranks.push_back(sizes);
  });
  for (const auto& sizes : of_ranks) {
    ASSERT_EQ(sizes.size(), 3 * 3 + 1u);
    size_t i = 0;
    for (const Collective operation : kOnTensors) {
      const bool shared = operation == kAllGather;
      for (const int64_t bytes : {shared ? 12 : 4, 600, 6000}) {
        EXPECT_EQ(sizes[i].operation, operation);
        EXPECT_EQ(sizes[i].bytes, bytes);
        EXPECT_EQ(sizes[i].elements, bytes / 4 / (shared ? 3 : 1));
        EXPECT_EQ(sizes[i].wrong, 0)
            << kCollectiveNames[static_cast<size_t>(operation)] << " of " << bytes;
        EXPECT_GE(sizes[i].seconds.count, 3);
        EXPECT_GT(sizes[i].seconds.low, 0);
        EXPECT_EQ(sizes[i].seconds.median, of_ranks[0][i].seconds.median) << "the ranks agree";
        ++i;
      }
    }
    EXPECT_EQ(sizes.back().operation, kBarrier);
    EXPECT_EQ(sizes.back().bytes, 0);
  }
}

// A probe may take longer than dist.timeout, after which a watchdog that hears nothing ends
// the job.
TEST(CommProbe, ReportsProgressAfterEachOperation) {
  run_thread_world(2, [](Communicator& comm) {
    int64_t reported = 0, timed = 0;
    const std::vector<ProbedSize> sizes = probe(comm, at::kCPU,
                                                {.operations = {kAllReduce, kBroadcast},
                                                 .sizes = {4, 600},
                                                 .seconds = 0.1,
                                                 .most_repetitions = 20,
                                                 .progress = [&] { ++reported; }});
    ASSERT_EQ(sizes.size(), 4u);
    for (const ProbedSize& one : sizes) timed += one.seconds.count;
    EXPECT_EQ(reported, timed + 2 * 4) << "each size runs twice before";
  });
}

TEST(CommProbe, FindsWrongValuesOfAnyRank) {
  run_thread_world(2, [](Communicator& comm) {
    BadNetwork network(comm);
    network.corrupts = true;
    const std::vector<ProbedSize> sizes =
        probe(network, at::kCPU, {.sizes = {64, 256}, .seconds = 0.01, .check_values = true});
    ASSERT_EQ(sizes.size(), 2u);
    for (const ProbedSize& one : sizes) EXPECT_EQ(one.wrong, 1);
  });
}

TEST(CommProbe, LeavesOutTheSizesForWhichThereIsNoTime) {
  run_thread_world(2, [](Communicator& comm) {
    BadNetwork network(comm);
    network.seconds_per_byte = 1e-7;  // 10 MB/s
    const std::vector<ProbedSize> sizes =
        probe(network, at::kCPU,
              {.sizes = {4, 4000, 40'000, 400'000, 4'000'000, 40'000'000},
               .seconds = 0.1,
               .clock = &network.clock});
    ASSERT_EQ(sizes.size(), 3u);
    EXPECT_EQ(sizes.back().bytes, 40'000) << "40 ms for one operation do not fit five times";
    const int64_t sent = std::accumulate(network.sizes.begin(), network.sizes.end(), int64_t{0});
    EXPECT_GT(sent, 500'000);
    EXPECT_LE(sent, 1'000'000) << "0.1 s";
  });
}

TEST(CommProbe, TheFitIsThatOfTheNetwork) {
  run_thread_world(2, [](Communicator& comm) {
    BadNetwork network(comm);
    network.latency = 1e-4;
    network.seconds_per_byte = 1e-8;  // 100 MB/s
    const CostFit fit = probe_all_reduce(network, at::kCPU, /*seconds=*/0.2, network.clock);
    EXPECT_NEAR(fit.latency, 1e-4, 1e-8);
    EXPECT_NEAR(fit.seconds_per_byte, 1e-8, 1e-12);
  });
}

TEST(CommProbe, OnOneRankNothingTravels) {
  const std::unique_ptr<Communicator> lone = make_lone_communicator();
  const CostFit fit = probe_all_reduce(*lone, at::kCPU);
  EXPECT_EQ(fit.latency, 0);
  EXPECT_EQ(fit.seconds_per_byte, 0);
}

TEST(CommProbe, BandwidthsAreThoseOfNcclTests) {
  const auto of = [](Collective operation) {
    return ProbedSize{.operation = operation, .bytes = 1'000'000, .seconds = spread_of({1e-3})};
  };
  for (const Collective operation : kOnTensors)
    EXPECT_DOUBLE_EQ(algorithm_bandwidth(of(operation)), 1e9);
  EXPECT_DOUBLE_EQ(bus_bandwidth(of(kAllReduce), 4), 1.5e9);  // 2 (n - 1) / n
  EXPECT_DOUBLE_EQ(bus_bandwidth(of(kAllGather), 4), 0.75e9);
  EXPECT_DOUBLE_EQ(bus_bandwidth(of(kBroadcast), 4), 1e9);
}

TEST(PlanRepetitions, SharesTheTimeAndKeepsTheLimits) {
  const std::vector<double> seconds = {1e-6, 1e-3, 0.1, 0};
  EXPECT_EQ(plan_repetitions(seconds, 0.08, 100), (std::vector<int>{100, 20, 3, 100}));
  EXPECT_EQ(plan_repetitions(seconds, -1, 100), (std::vector<int>{3, 3, 3, 100}));
  EXPECT_TRUE(plan_repetitions({}, 1, 10).empty());
}

}  // namespace
}  // namespace dtrain::dist
