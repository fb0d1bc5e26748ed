// The contract over real MPI ranks, with messages of the usual and of tiny size, and by way of a second (staged) hop;
// then what MPI's communicator promises beyond it.

#include "dist/mpi_communicator.h"

#include <chrono>
#include <thread>

#include "config/config.h"
#include "dist/make_communicator.h"
#include "dist/staged_communicator.h"
#include "tests/dist/communicator_contract.h"
#include "tests/mpi/world_of_test.h"

namespace dtrain::dist {
namespace {

using testing::world_of_test;

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Communicator>()> make;
};

std::vector<Kind> kinds() {
  return {
      {"Mpi", [] { return make_host_communicator(world_of_test()); }},
      {"MpiByParts", [] { return make_mpi_communicator({.direct_bytes = 0, .piece_bytes = 1000}); }},
      {"StagedOnTheHost", [] { return make_staged_communicator(make_host_communicator(world_of_test()), at::kCPU); }}};
}

class MpiContract : public ::testing::TestWithParam<std::tuple<Kind, contract::Case>> {};

TEST_P(MpiContract, Holds) {
  const auto& [kind, one] = GetParam();
  const std::unique_ptr<Communicator> comm = kind.make();
  one.run(*comm, at::kCPU);
}

std::vector<contract::Case> host_cases() {
  std::vector<contract::Case> cases = contract::cases();
  cases.push_back({"HalfInFloat32", contract::half_in_float32_case});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Each, MpiContract,
                         ::testing::Combine(::testing::ValuesIn(kinds()), ::testing::ValuesIn(host_cases())),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
                         });

TEST(MpiCommunicator, SumsInTheOrderOfTheRanks) {
  const auto comm = make_mpi_communicator();
  for (const int64_t n : {int64_t{11}, int64_t{50'003}}) {  // whole, and by slices
    const at::Tensor mine = contract::rough_numbers(comm->rank(), n, at::kFloat);
    comm->all_reduce(mine, ReduceOp::kSum).wait();
    at::Tensor in_order = contract::rough_numbers(0, n, at::kFloat);
    for (int rank = 1; rank < comm->size(); ++rank) in_order += contract::rough_numbers(rank, n, at::kFloat);
    EXPECT_TRUE(at::equal(contract::bytes_of(mine), contract::bytes_of(in_order)));
  }
}

TEST(MpiCommunicator, AbortFreesAnOperationThatOthersNeverJoin) {
  const auto comm = make_mpi_communicator();
  if (comm->size() == 1) return;  // nobody to wait for
  const at::Tensor tensor = at::ones({100'000}, at::kFloat);
  Work work = comm->rank() == 0 ? Work() : comm->all_reduce(tensor, ReduceOp::kSum);
  Work queued = comm->rank() == 0 ? Work() : comm->all_reduce(tensor, ReduceOp::kSum);
  std::thread([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    comm->abort("rank 0 never came");
  }).join();
  if (comm->rank() == 0) return;
  EXPECT_THROW(work.wait(), CommError);
  EXPECT_THROW(queued.wait(), CommError);
}

TEST(MpiCommunicator, RanksAtDifferentOperationsAreAnErrorOnEach) {
  const auto comm = make_mpi_communicator();
  if (comm->size() == 1) return;  // nobody to differ from
  const at::Tensor tensor = at::ones({comm->rank() == 1 ? 20 : 10}, at::kFloat);
  EXPECT_THROW(comm->all_reduce(tensor, ReduceOp::kSum).wait(), CommError);
  EXPECT_THROW(comm->barrier(), CommError);
}

TEST(MpiCommunicator, SeveralWorkSideBySideWhateverTheOrder) {
  const auto first = make_mpi_communicator(), second = make_mpi_communicator();
  const at::Tensor a = at::ones({200'000}, at::kFloat), b = at::full({200'000}, 2, at::kFloat);
  const bool even = first->rank() % 2 == 0;  // neighbours issue in opposite order
  Work one = even ? first->all_reduce(a, ReduceOp::kSum) : second->all_reduce(b, ReduceOp::kSum);
  Work other = even ? second->all_reduce(b, ReduceOp::kSum) : first->all_reduce(a, ReduceOp::kSum);
  one.wait();
  other.wait();
  contract::expect_equal(a, at::full({200'000}, first->size(), at::kFloat), "the first communicator");
  contract::expect_equal(b, at::full({200'000}, 2 * first->size(), at::kFloat), "the second communicator");
}

TEST(MpiCommunicator, RefusesTensorsThatItCannotMove) {
  const auto comm = make_mpi_communicator();
  EXPECT_THROW(static_cast<void>(comm->all_reduce(at::ones({4, 6}).t(), ReduceOp::kSum)), Error);
  EXPECT_THROW(static_cast<void>(comm->all_gather(at::ones({4 * comm->size() + 1}), at::ones({4}))), Error);
  EXPECT_THROW(static_cast<void>(comm->broadcast(at::ones({4}), comm->size())), Error);
  comm->barrier();  // a refusal is no failure of the communicator
}

TEST(MakeGradientCommunicator, IsMpiOnTheCpuAndFollowsWishes) {
  const World world = world_of_test();
  config::Dist dist;
  EXPECT_EQ(make_gradient_communicator(dist, world, at::kCPU)->name(), "mpi");
  dist.backend = "staged";
  EXPECT_EQ(make_gradient_communicator(dist, world, at::kCPU)->name(), "staged");
  dist.backend = "nccl";
  EXPECT_THROW(make_gradient_communicator(dist, world, at::kCPU), DeviceError);
}

}  // namespace
}  // namespace dtrain::dist
