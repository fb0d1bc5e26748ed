// The communicator contract on GPUs. Rank r uses GPU r modulo the number of GPUs. Gradients travel
// over NCCL if every rank has its own GPU, else over the staged communicator; a lone rank needs
// neither, so there NCCL is named. Without a GPU all tests are skipped.

#include <torch/cuda.h>

#include <chrono>
#include <thread>

#include "config/config.h"
#include "device/device.h"
#include "dist/make_communicator.h"
#include "tests/dist/communicator_contract.h"
#include "tests/mpi/world_of_test.h"

namespace dtrain::dist {
namespace {

using testing::world_of_test;

bool without_gpu() { return !torch::cuda::is_available(); }

at::Device device_of_rank() {
  const auto gpus = static_cast<int>(torch::cuda::device_count());
  return {at::kCUDA, static_cast<at::DeviceIndex>(world_of_test().rank % gpus)};
}

bool each_has_its_own() {
  return world_of_test().size <= static_cast<int>(torch::cuda::device_count());
}

// "nccl" where the ranks share a GPU, which it refuses: what auto takes instead.
std::unique_ptr<MeteredCommunicator> make(const std::string& backend) {
  config::Dist dist;
  dist.backend =
      value_named<config::Backend>(backend == "nccl" && !each_has_its_own() ? "auto" : backend)
          .value();
  return make_gradient_communicator(*make_host_communicator(world_of_test()), dist, world_of_test(),
                                    device_of_rank());
}

// NCCL reads its variables once, at the first communicator of the process.
class OrderedNccl : public ::testing::Environment {
  void SetUp() override { order_nccl_communicators(); }
};
[[maybe_unused]] const ::testing::Environment* const kOrdered =
    ::testing::AddGlobalTestEnvironment(new OrderedNccl);

class GpuContract : public ::testing::TestWithParam<std::tuple<std::string, contract::Case>> {};

TEST_P(GpuContract, Holds) {
  if (without_gpu()) GTEST_SKIP() << "no GPU";
  const auto& [backend, one] = GetParam();
  const c10::DeviceGuard guard(device_of_rank());
  const std::unique_ptr<Communicator> comm = make(backend);
  one.run(*comm, device_of_rank());
}

INSTANTIATE_TEST_SUITE_P(Each, GpuContract,
                         ::testing::Combine(::testing::Values("auto", "nccl", "staged"),
                                            ::testing::ValuesIn(contract::cases())),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param).name;
                         });

TEST(GpuCommunicator, IsNcclWhereEveryRankHasItsOwnGpu) {
  if (without_gpu()) GTEST_SKIP() << "no GPU";
  EXPECT_EQ(make("auto")->name(), world_of_test().size == 1 ? "none"
                                  : each_has_its_own()      ? "nccl"
                                                            : "staged");
  if (!each_has_its_own()) {
    config::Dist dist;
    dist.backend = config::Backend::kNccl;
    const std::unique_ptr<Communicator> host = make_host_communicator(world_of_test());
    EXPECT_THROW(make_gradient_communicator(*host, dist, world_of_test(), device_of_rank()),
                 ConfigError);
  }
  EXPECT_THROW(make("mpi"), ConfigError);
}

// The buckets and batch norm's sums: both in flight on a busy GPU, issued in one order on
// all ranks.
TEST(GpuCommunicator, TwoInFlightOnABusyGpuDoNotWaitForEachOther) {
  if (without_gpu()) GTEST_SKIP() << "no GPU";
  const auto gradients = make("nccl"), statistics = make("nccl");
  const c10::DeviceGuard guard(device_of_rank());
  const at::Tensor busy =
      at::ones({1024, 1024}, at::TensorOptions(at::kFloat).device(device_of_rank()));
  const at::Tensor bucket = at::ones({1 << 20}, busy.options()),
                   sums = at::ones({65}, busy.options());
  for (int round = 0; round < 200; ++round) {
    at::matmul(busy, busy);
    Work large = gradients->all_reduce(bucket, ReduceOp::kMax);
    for (int layer = 0; layer < 5; ++layer) statistics->all_reduce(sums, ReduceOp::kMax).wait();
    large.wait();
  }
  EXPECT_TRUE(at::equal(sums.cpu(), at::ones({65})));
  EXPECT_TRUE(at::equal(bucket.cpu(), at::ones({1 << 20})));
}

TEST(GpuCommunicator, CountsWhatTheDeviceHasCarried) {
  if (without_gpu()) GTEST_SKIP() << "no GPU";
  const auto comm = make("nccl");
  const c10::DeviceGuard guard(device_of_rank());
  const at::Tensor tensor =
      at::ones({1 << 22}, at::TensorOptions(at::kFloat).device(device_of_rank()));
  for (int i = 0; i < 3; ++i) comm->all_reduce(tensor, ReduceOp::kMax).wait();
  torch::cuda::synchronize();
  const Carried sum = comm->traffic()[static_cast<size_t>(Collective::kAllReduce)];
  if (comm->name() != "none") {
    EXPECT_EQ(sum.bytes, 3 * (int64_t{4} << 22));
    EXPECT_GT(sum.seconds, 0);
  }
  comm->check();
}

TEST(GpuCommunicator, StagedSumsHalfInFloat32) {
  if (without_gpu()) GTEST_SKIP() << "no GPU";
  contract::half_in_float32_case(*make("staged"), device_of_rank());
}

TEST(GpuCommunicator, WaitDoesNotBlockTheHost) {
  if (without_gpu()) GTEST_SKIP() << "no GPU";
  if (!each_has_its_own()) return;  // through the host it does wait
  const auto comm = make("nccl");
  const c10::DeviceGuard guard(device_of_rank());
  const at::Tensor busy =
      at::ones({4096, 4096}, at::TensorOptions(at::kFloat).device(device_of_rank()));
  const at::Tensor tensor = at::ones({1 << 20}, busy.options());
  comm->all_reduce(tensor, ReduceOp::kSum).wait();
  torch::cuda::synchronize();
  const auto started = std::chrono::steady_clock::now();
  at::Tensor product = busy;
  for (int i = 0; i < 200; ++i) product = at::matmul(product, busy).mul_(1.0 / 4096);
  tensor.copy_(product.flatten().narrow(0, 0, 1 << 20));
  comm->all_reduce(tensor, ReduceOp::kSum).wait();
  const auto issued = std::chrono::steady_clock::now() - started;
  torch::cuda::synchronize();
  const auto done = std::chrono::steady_clock::now() - started;
  EXPECT_LT(issued, done / 2) << "wait() blocked the host";
  EXPECT_TRUE(at::equal(tensor.cpu(), at::full({1 << 20}, comm->size(), at::kFloat)));
}

// By which ranks find out that they share a GPU.
TEST(GpuIdentity, NamesTheDevice) {
  if (without_gpu()) GTEST_SKIP() << "no GPU";
  const device::Properties gpu = device::properties(device_of_rank());
  EXPECT_EQ(gpu.uuid.size(), 32u);
  EXPECT_EQ(gpu.pci_bus_id.size(), 12u);
  EXPECT_GT(gpu.memory_bytes, 0);
  EXPECT_GE(gpu.capability, 50);
  EXPECT_THROW(device::properties({at::kCUDA, 100}), DeviceError);
}

}  // namespace
}  // namespace dtrain::dist
