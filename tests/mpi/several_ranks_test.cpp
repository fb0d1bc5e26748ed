// What the MPI communicator does when ranks do not act together. Run on two ranks or more.

#include <chrono>
#include <thread>

#include "dist/mpi_communicator.h"
#include "tests/dist/communicator_contract.h"

namespace dtrain::dist {
namespace {

class MpiAbort : public ::testing::TestWithParam<std::string> {};

TEST_P(MpiAbort, UnblocksAnOperationThatRankZeroNeverJoins) {
  const auto comm = make_mpi_communicator();
  const at::Tensor tensor = at::ones({100'000}, at::kFloat), all = at::empty({comm->size(), 100'000}, at::kFloat);
  const auto operation = [&] {
    if (GetParam() == "AllGather") return comm->all_gather(all, tensor);
    if (GetParam() == "Broadcast") return comm->broadcast(tensor, 0);
    return comm->all_reduce(tensor, ReduceOp::kSum);
  };
  std::thread aborts([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    comm->abort("rank 0 never came");
  });
  if (comm->rank() != 0) {
    if (GetParam() == "Barrier") {
      EXPECT_THROW(comm->barrier(), CommError);
    } else {
      Work work = operation(), queued = operation();
      EXPECT_THROW(work.wait(), CommError);
      EXPECT_THROW(queued.wait(), CommError);
    }
  }
  aborts.join();
}

INSTANTIATE_TEST_SUITE_P(Each, MpiAbort, ::testing::Values("AllReduce", "AllGather", "Broadcast", "Barrier"),
                         [](const auto& info) { return info.param; });

TEST(MpiCommunicator, RanksAtDifferentOperationsAreAnErrorOnEach) {
  const auto comm = make_mpi_communicator();
  const at::Tensor tensor = at::ones({comm->rank() == 1 ? 20 : 10}, at::kFloat);
  EXPECT_THROW(comm->all_reduce(tensor, ReduceOp::kSum).wait(), CommError);
  EXPECT_THROW(comm->barrier(), CommError);
}

}  // namespace
}  // namespace dtrain::dist
