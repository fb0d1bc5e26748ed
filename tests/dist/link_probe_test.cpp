#include "dist/link_probe.h"

#include <gmock/gmock.h>

#include <set>
#include <string>
#include <vector>

namespace dtrain::dist {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string> kNodes = {"a", "a", "b", "b", "c", "c", "d", "d"};

// The links of a ring of hosts of two ranks, each as fast as `speed(from, to)` says.
template <typename Speed>
std::vector<LinkSpeed> ring(int hosts, Speed speed) {
  std::vector<LinkSpeed> links;
  for (int host = 0; host < hosts; ++host) {
    for (const int other : {(host + 1) % hosts, (host + hosts - 1) % hosts}) {
      links.push_back({2 * host, 2 * other, static_cast<double>(speed(host, other))});
      if (hosts == 2) break;
    }
  }
  return links;
}

TEST(LinkProbe, NoHostMeasuresTwoLinksAtOnce) {
  for (int hosts = 2; hosts <= 9; ++hosts) {
    std::set<int> links;
    for (const std::vector<int>& round : rounds_of_links(hosts)) {
      std::set<int> busy;
      for (const int link : round) {
        EXPECT_TRUE(busy.insert(link).second && busy.insert((link + 1) % hosts).second) << hosts;
        links.insert(link);
      }
    }
    EXPECT_EQ(static_cast<int>(links.size()), hosts == 2 ? 1 : hosts);
  }
  EXPECT_TRUE(rounds_of_links(1).empty());
}

TEST(SlowLinks, LinksThatDifferLittleAreNotNamed) {
  EXPECT_EQ(describe_slow_links({}, kNodes), "");
  EXPECT_EQ(describe_slow_links(ring(4, [](int from, int) { return 1e9 - 2e8 * from; }), kNodes),
            "");
  EXPECT_EQ(describe_slow_links(ring(2, [](int, int) { return 1e5; }), kNodes), "")
      << "there is nothing to compare with";
}

TEST(SlowLinks, AHostIsNamedByDirection) {
  for (const int hosts : {3, 4}) {
    const auto both =
        ring(hosts, [](int from, int to) { return from == 2 || to == 2 ? 1 << 20 : 1 << 30; });
    EXPECT_THAT(
        describe_slow_links(both, kNodes),
        AllOf(
            HasSubstr("from c 1.0 MiB/s, to c 1.0 MiB/s; most links between hosts carry 1.0 GiB/s"),
            Not(HasSubstr("from c to"))));
  }
  const auto one = ring(4, [](int from, int) { return from == 2 ? 1 << 20 : 1 << 30; });
  EXPECT_THAT(describe_slow_links(one, kNodes),
              AllOf(HasSubstr("from c 1.0 MiB/s; most"), Not(HasSubstr("to c"))));
}

TEST(SlowLinks, ALinkIsNamedWhereItsHostsAreNotSlow) {
  const auto links =
      ring(4, [](int from, int to) { return from == 1 && to == 2 ? 1 << 20 : 1 << 30; });
  EXPECT_THAT(describe_slow_links(links, kNodes),
              HasSubstr("slow network: from b to c 1.0 MiB/s; most"));
  const auto two = ring(2, [](int from, int) { return from == 0 ? 1 << 20 : 1 << 30; });
  EXPECT_THAT(describe_slow_links(two, kNodes), HasSubstr("from a to b 1.0 MiB/s; most"));
}

TEST(SlowLinks, AtMostEightAreNamed) {
  std::vector<std::string> nodes(200);
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i] = "n" + std::to_string(i / 2);
  const auto links = ring(
      100, [](int from, int to) { return from % 9 == 0 && to == from + 1 ? 1 << 20 : 1 << 30; });
  EXPECT_THAT(describe_slow_links(links, nodes), HasSubstr("and 3 more"));
}

}  // namespace
}  // namespace dtrain::dist
