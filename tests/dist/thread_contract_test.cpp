#include "dist/lone_communicator.h"
#include "support/thread_world.h"
#include "tests/dist/communicator_contract.h"

namespace dtrain::dist {
namespace {

class ThreadContract : public ::testing::TestWithParam<int> {};

TEST_P(ThreadContract, HoldsForEveryCase) {
  std::vector<contract::Case> cases = contract::cases();
  cases.push_back({"HalfInFloat32", contract::half_in_float32_case});
  for (const contract::Case& one : cases) {
    SCOPED_TRACE(one.name);
    run_thread_world(GetParam(), [&](Communicator& comm) { one.run(comm, at::kCPU); });
  }
}

TEST(LoneContract, HoldsForEveryCase) {
  std::vector<contract::Case> cases = contract::cases();
  cases.push_back({"HalfInFloat32", contract::half_in_float32_case});
  for (const contract::Case& one : cases) {
    SCOPED_TRACE(one.name);
    one.run(*make_lone_communicator(), at::kCPU);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, ThreadContract, ::testing::Values(1, 2, 4));

}  // namespace
}  // namespace dtrain::dist
