#include "doctor/rank_facts.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "doctor/healthy.h"
#include "support/expect_error.h"

namespace dtrain::doctor {
namespace {

TEST(RankFacts, EveryFieldTravels) {
  RankFacts facts = testing::on_gpus().ranks[0];
  facts.resident_bytes = 300;
  facts.variables = {{"LD_PRELOAD", "a \"b\"\n"}};
  facts.clock_offset = -1.5;
  facts.clock_spread = 0.25;
  facts.port_problem = "x";
  facts.device_problem = "y";
  facts.data_problem = "z";
  facts.network_problem = "w";
  facts.network_refused = "v";
  facts.gpu->throttled_by = {"sw_thermal"};
  facts.gpu->link.numa_node.reset();
  facts.machine.memory_used = 12;
  facts.machine.threads_of_user = 23;
  const std::string json = to_json(facts);
  const RankFacts back = rank_facts_from_json(json);
  EXPECT_EQ(to_json(back), json);
  // That the fields are in the text at all:
  EXPECT_TRUE(std::isinf(back.machine.cpu_quota.value())) << "no limit is not unknown";
  EXPECT_EQ(back.machine.allowed_cores, facts.machine.allowed_cores);
  EXPECT_EQ(back.machine.memory_limit, os::kNoLimit);
  EXPECT_EQ(back.machine.threads_of_user, 23);
  EXPECT_EQ(back.machine.open_files->hard, 1 << 20);
  EXPECT_EQ(back.variables, facts.variables);
  EXPECT_EQ(back.gpu->peers[0].result, "correct");
  EXPECT_EQ(back.gpu->link.width, 16);
  EXPECT_FALSE(back.gpu->link.numa_node);
  EXPECT_EQ(back.run_system->free_bytes, facts.run_system->free_bytes);
  EXPECT_EQ(back.network->optimizer_bytes, facts.network->optimizer_bytes);
  EXPECT_EQ(back.keys, facts.keys);
  EXPECT_EQ(back.clock_offset, -1.5);
}

TEST(RankFacts, UnknownValuesStayUnknown) {
  const RankFacts back = rank_facts_from_json(to_json(RankFacts{}));
  EXPECT_FALSE(back.gpu || back.network || back.run_system || back.other_cpu ||
               back.machine.cpu_quota || back.machine.open_files);
}

TEST(RankFacts, AnotherTextIsAnError) {
  for (const char* bad : {"", "{}", "[]", "{\"rank\": \"x\"}"}) {
    dtrain::testing::expect_error<Error>([&] { rank_facts_from_json(bad); }, {"facts of a rank"});
  }
}

}  // namespace
}  // namespace dtrain::doctor
