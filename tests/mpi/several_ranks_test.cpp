// What communicators between processes do when ranks do not act together. Run on two ranks or more.

#include <mpi.h>

#include <chrono>
#include <functional>
#include <thread>

#include "dist/mpi_communicator.h"
#include "dist/shared_memory_communicator.h"
#include "tests/dist/communicator_contract.h"

namespace dtrain::dist {
namespace {

std::unique_ptr<Communicator> make(const std::string& kind) {
  std::unique_ptr<Communicator> mpi = make_mpi_communicator();
  return kind == "Mpi" ? std::move(mpi) : make_shared_memory_communicator(*mpi);
}

class Abort : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(Abort, UnblocksAnOperationThatRankZeroNeverJoins) {
  const auto& [kind, what] = GetParam();
  const auto comm = make(kind);
  const int64_t n = what.find("Small") == std::string::npos ? 100'000 : 10;
  const at::Tensor tensor = at::ones({n}, at::kFloat),
                   all = at::empty({comm->size(), n}, at::kFloat);
  const at::Tensor shared = comm->allocate({n}, at::kFloat).fill_(1);
  const auto operation = [&, what = what] {
    if (what == "AllGather") return comm->all_gather(all, tensor);
    if (what == "Broadcast") return comm->broadcast(tensor, 0);
    return comm->all_reduce(what == "AllReduceInPlace" ? shared : tensor, ReduceOp::kSum);
  };
  MPI_Barrier(MPI_COMM_WORLD);  // an abort while another rank is still in allocate() would end that
  std::thread aborts([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    comm->abort("rank 0 never came");
  });
  if (comm->rank() != 0) {
    if (what == "Barrier") {
      EXPECT_THROW(comm->barrier(), CommError);
    } else {
      Work work = operation(), queued = operation();
      EXPECT_THROW(work.wait(), CommError);
      EXPECT_THROW(queued.wait(), CommError);
    }
  }
  aborts.join();
}

INSTANTIATE_TEST_SUITE_P(
    Each, Abort,
    ::testing::Combine(::testing::Values("Mpi", "SharedMemory"),
                       ::testing::Values("AllReduce", "SmallAllReduce", "AllReduceInPlace",
                                         "AllGather", "Broadcast", "Barrier")),
    [](const auto& info) { return std::get<0>(info.param) + std::get<1>(info.param); });

class Different : public ::testing::TestWithParam<std::string> {};

TEST_P(Different, OperationsAreAnErrorOnEachRank) {
  const auto comm = make(GetParam());
  const at::Tensor tensor = at::ones({comm->rank() == 1 ? 20 : 10}, at::kFloat);
  EXPECT_THROW(comm->all_reduce(tensor, ReduceOp::kSum).wait(), CommError);
  EXPECT_THROW(comm->barrier(), CommError);
}

INSTANTIATE_TEST_SUITE_P(Each, Different, ::testing::Values("Mpi", "SharedMemory"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace dtrain::dist
