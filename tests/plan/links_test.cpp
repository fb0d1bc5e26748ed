#include "plan/links.h"

#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "support/expect_error.h"

namespace dtrain::plan {
namespace {

using dtrain::testing::expect_error;

TEST(Links, HaveNamesBandwidthsAndGenerationsThatGrow) {
  std::set<std::string> names;
  for (const Link& link : known_links()) {
    EXPECT_TRUE(names.insert(link.name).second) << link.name;
    EXPECT_GT(link.bytes_per_second, 0) << link.name;
    EXPECT_TRUE(link.in_node() || link.kind == LinkKind::kNetwork) << link.name;
    EXPECT_EQ(link.hop_seconds > 0, link.kind == LinkKind::kNetwork || link.kind == LinkKind::kHost)
        << link.name;
  }
  const auto rate = [](const char* name) { return parse_interconnect(name, nullptr, true); };
  EXPECT_LT(rate("nvlink3").inside.bytes_per_second, rate("nvlink4").inside.bytes_per_second);
  EXPECT_EQ(2 * rate("ib200").between.bytes_per_second, rate("ib400").between.bytes_per_second);
}

TEST(Links, TwoAreInsideAndBetween) {
  const Interconnect both = parse_interconnect("nvlink4+4xib100", nullptr, true);
  EXPECT_EQ(both.inside.name, "nvlink4");
  EXPECT_EQ(both.between.name, "4xib100");
  EXPECT_DOUBLE_EQ(both.between.bytes_per_second, 48e9);
  EXPECT_TRUE(both.assumed.empty());
}

TEST(Links, OneIsCompletedByAUsualOne) {
  const Interconnect network = parse_interconnect("25gbe", nullptr, /*gpus=*/true);
  EXPECT_EQ(network.inside.name, "pcie4");
  EXPECT_EQ(network.between.name, "25gbe");
  ASSERT_EQ(network.assumed.size(), 1u);
  EXPECT_EQ(network.assumed[0].name, "pcie4");
  EXPECT_EQ(parse_interconnect("25gbe", nullptr, /*gpus=*/false).inside.name, "shm");
  EXPECT_EQ(parse_interconnect("nvlink4", nullptr, true).assumed.at(0).name, "100gbe");
  EXPECT_EQ(parse_interconnect("", nullptr, true).assumed.size(), 2u);
}

TEST(Links, AlphaBetaIsBoth) {
  const Interconnect given = parse_interconnect(" 5.5,12 ", nullptr, true);
  EXPECT_DOUBLE_EQ(given.inside.hop_seconds, 5.5e-6);
  EXPECT_DOUBLE_EQ(given.between.bytes_per_second, 12e9);
  EXPECT_TRUE(given.assumed.empty());
  const Interconnect mixed = parse_interconnect("nvlink4+5.5,12", nullptr, true);
  EXPECT_EQ(mixed.inside.name, "nvlink4");
  EXPECT_DOUBLE_EQ(mixed.between.bytes_per_second, 12e9);
}

// An all-reduce on n ranks takes 2 (n - 1) messages of 1/n of the bytes, whatever n the fit
// is from.
TEST(Links, AFitOfAnyNumberOfRanksIsTheSameLink) {
  const double hop = 3e-6, rate = 8e9;
  for (const int64_t ranks : {2, 3, 8}) {
    const auto n = static_cast<double>(ranks);
    const Link link = link_of_fit(
        {.latency = 2 * (n - 1) * hop, .seconds_per_byte = 2 * (n - 1) / n / rate, .residual = 0},
        ranks);
    EXPECT_NEAR(link.hop_seconds, hop, 1e-12);
    EXPECT_NEAR(link.bytes_per_second, rate, 1);
  }
  EXPECT_GT(link_of_fit({.latency = 1e-6}, 2).bytes_per_second, 1e12)
      << "a fit without a term for the size";
}

TEST(Links, MeasuredIsThatOfThisJob) {
  const Link here{.name = "measured", .bytes_per_second = 1e9, .hop_seconds = 1e-6};
  EXPECT_EQ(parse_interconnect("measured", &here, false).between.bytes_per_second, 1e9);
  expect_error<UsageError>([] { parse_interconnect("measured", nullptr, false); },
                           {"mpirun -np 2 dtrain plan"});
}

TEST(Links, UnknownOnesAreNamedWithTheNearest) {
  expect_error<UsageError>([] { parse_interconnect("nvlnk4", nullptr, true); },
                           {"'nvlnk4'", "did you mean 'nvlink4'?"});
  expect_error<UsageError>([] { parse_interconnect("carrier pigeon", nullptr, true); },
                           {"nvlink3", "400gbe", "ALPHA,BETA"});
  for (const char* text : {"0xib100", "65xib100", "xib100", "nanxib100", "2x", "nvlink4+", "+ib100",
                           "pcie4+ib100+ib100"}) {
    EXPECT_THROW(parse_interconnect(text, nullptr, true), UsageError) << text;
  }
  for (const char* text : {"5,0", "-1,5", "5,", ",5", "inf,5", "5,nan", "5us,12", "1e300,1e-300"}) {
    expect_error<UsageError>([&] { parse_interconnect(text, nullptr, true); }, {"5.2,11.8"});
  }
  expect_error<UsageError>([] { parse_interconnect("ib100+nvlink4", nullptr, true); },
                           {"ib100 is in the wrong place"});
  expect_error<UsageError>([] { parse_interconnect("pcie4+nvlink4", nullptr, true); },
                           {"nvlink4 is in the wrong place"});
}

}  // namespace
}  // namespace dtrain::plan
