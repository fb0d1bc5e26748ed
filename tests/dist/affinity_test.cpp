#include "dist/affinity.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <limits>
#include <numeric>
#include <thread>

#include "core/error.h"
#include "support/expect_error.h"

namespace dtrain::dist {
namespace {

TEST(ShareOf, SharesAreContiguousDisjointAndTogetherAll) {
  std::vector<int> cores(13);
  std::iota(cores.begin(), cores.end(), 4);
  for (int ranks = 1; ranks <= 13; ++ranks) {
    std::vector<int> together;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<int> share = share_of(cores, rank, ranks);
      EXPECT_GE(share.size(), cores.size() / static_cast<size_t>(ranks));
      EXPECT_LE(share.size(), cores.size() / static_cast<size_t>(ranks) + 1);
      together.insert(together.end(), share.begin(), share.end());
    }
    EXPECT_EQ(together, cores) << ranks << " ranks";
  }
}

TEST(ShareOf, MoreRanksThanCoresUseAllOfThem) {
  const std::vector<int> cores = {2, 3};
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(share_of(cores, rank, 3), cores);
}

TEST(CoreShare, ThreadsAreAsManyAsTheCoresOfARank) {
  EXPECT_EQ((CoreShare{.cores = 8, .ranks = 1}.threads()), 8);
  // Four ranks on the two cores of a laptop
  EXPECT_EQ((CoreShare{.cores = 2, .ranks = 4}.threads()), 1);
  EXPECT_EQ((CoreShare{.cores = 5, .ranks = 2}.threads()), 2);
}

TEST(WithinQuota, ALimitIsDividedAmongTheRanksOfTheNode) {
  const double none = std::numeric_limits<double>::infinity();
  const CoreShare own{.cores = 8, .ranks = 1};  // of its rank alone
  EXPECT_EQ(within_quota(own, none, 4).cores, 8);
  EXPECT_EQ(within_quota(own, 32, 4).cores, 8);
  EXPECT_EQ(within_quota(own, 6, 1).cores, 6);
  EXPECT_EQ(within_quota(own, 6, 4).cores, 1);
  EXPECT_EQ(within_quota(own, 7.9, 2).cores, 3);
  EXPECT_EQ(within_quota(own, 0.5, 1).cores, 1);
  const CoreShare shared{.cores = 8, .ranks = 10};  // of all ten ranks of the node
  EXPECT_EQ(within_quota(shared, 4.5, 10).cores, 4);
  EXPECT_EQ(within_quota(shared, 4.5, 10).threads(), 1);
}

TEST(ComputingThreads, AreTheKeysOrThoseOfTheCoresAndTheVariable) {
  const CoreShare share{.cores = 6, .ranks = 1};
  EXPECT_EQ(computing_threads(3, "2", share), 3);
  EXPECT_EQ(computing_threads(0, "", share), 6);
  EXPECT_EQ(computing_threads(0, "2", share), 2);
  EXPECT_EQ(computing_threads(0, " 5 ", share), 5);
  EXPECT_EQ(computing_threads(0, "4,3,2", share), 4);
  EXPECT_EQ(computing_threads(0, "100000", share), 6);
  for (const char* no_number : {"0", "-1", "two", ",2", " "})
    EXPECT_EQ(computing_threads(0, no_number, share), 6);
}

TEST(ComputingThreads, AreNotManyMoreThanTheCores) {
  const CoreShare small{.cores = 2, .ranks = 1}, large{.cores = 128, .ranks = 2};
  EXPECT_EQ(computing_threads(64, "", small), 64);
  EXPECT_EQ(computing_threads(1024, "", large), 1024);
  testing::expect_error<ConfigError>([&] { computing_threads(65, "", small); },
                                     {"--threads (device.threads): 65 threads on the 2 cores",
                                      "use 0, which takes 2, or at most 64"});
  testing::expect_error<ConfigError>([&] { computing_threads(4096, "", large); }, {"at most 1024"});
}

TEST(WidenAffinity, WithoutALauncherTheMaskStays) {
  // In a thread of its own, whose mask is reduced to one core first, as by `taskset -c N dtrain`.
  std::thread([] {
    cpu_set_t before, after;
    CPU_ZERO(&before);
    CPU_SET(::sched_getcpu(), &before);
    ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
    EXPECT_EQ(widen_affinity(World{}).cores, 1);
    ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  }).join();
}

}  // namespace
}  // namespace dtrain::dist
