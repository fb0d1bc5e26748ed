// The contract on real MPI ranks: with messages of the usual size, with tiny ones, through the
// staged communicator, and through shared memory. Then what the MPI communicator promises beyond
// the contract.

#include "dist/mpi_communicator.h"

#include <sys/resource.h>

#include "config/config.h"
#include "dist/make_communicator.h"
#include "dist/shared_memory_communicator.h"
#include "dist/staged_communicator.h"
#include "support/no_memfd.h"
#include "tests/dist/communicator_contract.h"
#include "tests/mpi/world_of_test.h"

namespace dtrain::dist {
namespace {

using testing::world_of_test;
using testing::world_on_hosts;

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Communicator>()> make;
};

std::vector<Kind> kinds() {
  return {
      {"Mpi", [] { return make_host_communicator(world_of_test()); }},
      {"MpiInSmallMessages",
       [] { return make_mpi_communicator({.direct_bytes = 0, .message_bytes = 1000}); }},
      {"StagedOnTheHost",
       [] { return make_staged_communicator(make_host_communicator(world_of_test()), at::kCPU); }},
      {"StagedInSharedMemory",
       [] {
         return make_staged_communicator(make_metered_communicator(make_shared_memory_communicator(
                                             *make_host_communicator(world_of_test()))),
                                         at::kCPU);
       }},
      {"SharedMemory",
       [] { return make_shared_memory_communicator(*make_host_communicator(world_of_test())); }},
      {"SharedMemoryInDevShm", [] {
         return make_shared_memory_communicator(*make_host_communicator(world_of_test()),
                                                {.make_unnamed = testing::no_memfd});
       }}};
}

class MpiContract : public ::testing::TestWithParam<std::tuple<Kind, contract::Case>> {};

TEST_P(MpiContract, Holds) {
  const auto& [kind, one] = GetParam();
  const std::unique_ptr<Communicator> comm = kind.make();
  one.run(*comm, at::kCPU);
}

// On two hosts: two ranks and two, or two and one.
std::unique_ptr<MeteredCommunicator> make_hierarchical(
    config::Backend backend = config::Backend::kHierarchical) {
  config::Dist dist;
  dist.backend = backend;
  const World world = world_on_hosts(2);
  const auto host = make_host_communicator(world);
  return make_gradient_communicator(*host, dist, world, at::kCPU);
}

class MpiHierarchicalContract : public ::testing::TestWithParam<contract::Case> {};

TEST_P(MpiHierarchicalContract, Holds) { GetParam().run(*make_hierarchical(), at::kCPU); }
TEST_P(MpiHierarchicalContract, HoldsStaged) {
  GetParam().run(*make_hierarchical(config::Backend::kStaged), at::kCPU);
}

INSTANTIATE_TEST_SUITE_P(Each, MpiHierarchicalContract, ::testing::ValuesIn(contract::cases()),
                         [](const auto& info) { return info.param.name; });

std::vector<contract::Case> host_cases() {
  std::vector<contract::Case> cases = contract::cases();
  cases.push_back({"HalfInFloat32", contract::half_in_float32_case});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Each, MpiContract,
                         ::testing::Combine(::testing::ValuesIn(kinds()),
                                            ::testing::ValuesIn(host_cases())),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
                         });

TEST(MpiCommunicator, SumsInTheOrderOfTheRanks) {
  const auto comm = make_mpi_communicator();
  for (const int64_t n : {int64_t{11}, int64_t{50'003}}) {  // whole, and by slices
    const at::Tensor mine = contract::rough_numbers(comm->rank(), n, at::kFloat);
    comm->all_reduce(mine, ReduceOp::kSum).wait();
    at::Tensor in_order = contract::rough_numbers(0, n, at::kFloat);
    for (int rank = 1; rank < comm->size(); ++rank)
      in_order += contract::rough_numbers(rank, n, at::kFloat);
    EXPECT_TRUE(at::equal(contract::bytes_of(mine), contract::bytes_of(in_order)));
  }
}

TEST(MessageSize, FitsInAnIntAndCutsLargeTensorsIntoManyMessages) {
  constexpr int64_t kMiB = 1 << 20, kGiB = 1 << 30;
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, kMiB - 1, kMiB, 63 * kMiB})
    EXPECT_EQ(message_size(bytes, kMiB), kMiB);
  EXPECT_EQ(message_size(640 * kMiB, kMiB), 10 * kMiB);
  for (const int64_t bytes : {2 * kGiB - 1, 2 * kGiB, 2 * kGiB + 1, 5 * kGiB + 3, 64 * kGiB,
                              1000 * kGiB, 1'000'000 * kGiB}) {
    EXPECT_LE(message_size(bytes, kMiB), kGiB) << bytes;
    EXPECT_GE(message_size(bytes, kMiB), kMiB) << bytes;
  }
}

// Strided messages: what each rank sends ends up at its place, also if the last message is shorter
// than the others.
TEST(MpiCommunicator, GathersAndBroadcastsInMessagesOfAnySize) {
  for (const int64_t message_bytes : {1, 7, 64, 1000}) {
    const auto comm = make_mpi_communicator({.message_bytes = message_bytes});
    for (const int64_t bytes : {1, 63, 64, 65, 997}) {
      const auto part = [bytes](int rank) {
        return contract::whole_numbers(rank, bytes, at::kLong).add_(10).to(at::kByte);
      };
      const at::Tensor all = at::zeros({comm->size(), bytes}, at::kByte);
      comm->all_gather(all, part(comm->rank())).wait();
      for (int rank = 0; rank < comm->size(); ++rank) {
        contract::expect_equal(all[rank], part(rank), str("part ", rank, " of ", bytes, " bytes"));
      }
      const at::Tensor sent = part(comm->rank());
      comm->broadcast(sent, comm->size() - 1).wait();
      contract::expect_equal(sent, part(comm->size() - 1), str("broadcast of ", bytes, " bytes"));
    }
  }
}

TEST(MpiCommunicator, SeveralWorkSideBySideInAnyOrder) {
  const auto first = make_mpi_communicator(), second = make_mpi_communicator();
  const at::Tensor a = at::ones({200'000}, at::kFloat), b = at::full({200'000}, 2, at::kFloat);
  const bool even = first->rank() % 2 == 0;  // even and odd ranks issue in opposite order
  Work one = even ? first->all_reduce(a, ReduceOp::kSum) : second->all_reduce(b, ReduceOp::kSum);
  Work other = even ? second->all_reduce(b, ReduceOp::kSum) : first->all_reduce(a, ReduceOp::kSum);
  one.wait();
  other.wait();
  contract::expect_equal(a, at::full({200'000}, first->size(), at::kFloat),
                         "the first communicator");
  contract::expect_equal(b, at::full({200'000}, 2 * first->size(), at::kFloat),
                         "the second communicator");
}

TEST(MpiCommunicator, RefusesTensorsThatItCannotTransfer) {
  const auto comm = make_mpi_communicator();
  EXPECT_THROW(static_cast<void>(comm->all_reduce(at::ones({4, 6}).t(), ReduceOp::kSum)), Error);
  EXPECT_THROW(static_cast<void>(comm->all_gather(at::ones({4 * comm->size() + 1}), at::ones({4}))),
               Error);
  EXPECT_THROW(static_cast<void>(comm->broadcast(at::ones({4}), comm->size())), Error);
  comm->barrier();  // the communicator still works
}

TEST(MakeGradientCommunicator, IsSharedMemoryForCpuRanksOfOneHostUnlessTheConfigSaysOtherwise) {
  const World world = world_of_test();
  const std::unique_ptr<Communicator> host = make_host_communicator(world);
  config::Dist dist;
  const auto chosen = make_gradient_communicator(*host, dist, world, at::kCPU);
  EXPECT_EQ(chosen->name(), world.size == 1 ? "none" : "shared_memory");
  for (const Carried& carried : chosen->traffic())
    EXPECT_EQ(carried.bytes, 0) << "the choice went over another one";
  dist.backend = config::Backend::kMpi;
  EXPECT_EQ(make_gradient_communicator(*host, dist, world, at::kCPU)->name(), "mpi");
  dist.backend = config::Backend::kStaged;
  EXPECT_EQ(make_gradient_communicator(*host, dist, world, at::kCPU)->name(), "staged");
  dist.backend = config::Backend::kNccl;
  EXPECT_THROW(make_gradient_communicator(*host, dist, world, at::kCPU), DeviceError);
}

TEST(MakeGradientCommunicator, IsHierarchicalForCpuRanksOfSeveralHostsIfOneHasSeveral) {
  const int size = world_of_test().size;
  const auto chosen = make_hierarchical(config::Backend::kAuto);
  EXPECT_EQ(chosen->name(), size == 1 ? "none" : size == 2 ? "mpi" : "hierarchical");
  for (const Carried& carried : chosen->traffic()) EXPECT_EQ(carried.bytes, 0);
  const at::Tensor tensor = chosen->allocate({10'000}, at::kFloat).fill_(1);
  for (const Carried& carried : chosen->traffic()) EXPECT_EQ(carried.bytes, 0) << "of allocate()";
  chosen->all_reduce(tensor, ReduceOp::kSum).wait();
  EXPECT_EQ(chosen->traffic()[static_cast<size_t>(Collective::kAllReduce)].bytes,
            size == 1 ? 0 : 40'000);
}

TEST(MpiGroups, ConnectTheRanksOfOneNumberInTheirOrder) {
  const World world = world_on_hosts(2);
  const auto group = make_mpi_communicator({.group = world.host});
  EXPECT_EQ(group->rank(), world.local_rank);
  EXPECT_EQ(group->size(), world.local_size);
  const at::Tensor sum = at::full({1}, world.rank, at::kLong);
  group->all_reduce(sum, ReduceOp::kSum).wait();
  int64_t wanted = 0;
  for (int rank = world.host; rank < world.size; rank += 2) wanted += rank;
  EXPECT_EQ(sum.item<int64_t>(), wanted);
}

TEST(MakeGradientCommunicator, TakesMpiOnAllRanksIfOneCannotShareMemoryUnlessItIsAskedFor) {
  const World world = world_of_test();
  const std::unique_ptr<Communicator> host = make_host_communicator(world);
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &usual), 0);
  const rlimit low{.rlim_cur = 4096, .rlim_max = usual.rlim_max};  // of memory files, too
  if (world.rank == world.size - 1) ::setrlimit(RLIMIT_FSIZE, &low);
  config::Dist dist;
  std::string warning, refused;
  {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(make_gradient_communicator(*host, dist, world, at::kCPU)->name(),
              world.size == 1 ? "none" : "mpi");
    warning = ::testing::internal::GetCapturedStderr();
    dist.backend = config::Backend::kSharedMemory;
    try {
      make_gradient_communicator(*host, dist, world, at::kCPU);
    } catch (const DeviceError& error) {
      refused = error.what();
    }
  }
  ::setrlimit(RLIMIT_FSIZE, &usual);
  const std::string why =
      str("rank ", world.size - 1, " cannot enlarge the memory file of rank 0: File too large");
  EXPECT_NE(refused.find(why), std::string::npos) << refused;
  EXPECT_EQ(warning.find(why) != std::string::npos, world.rank == 0 && world.size > 1) << warning;
}

}  // namespace
}  // namespace dtrain::dist
