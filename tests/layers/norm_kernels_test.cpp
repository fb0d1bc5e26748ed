// Batch norm by the GPU's kernels, run on the CPU block by block, and what guards them. With
// DTRAIN_TEST_BLOCKS=1 all other tests of batch norm run on these blocks too, in place of the CPU's
// loops (ctest: layers_test_on_blocks).

#include "layers/norm_kernels.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "kernels/batch_norm_blocks_body.h"
#include "layers/batch_norm.h"
#include "layers/batch_norm_arithmetic.h"
#include "layers/batch_norm_check.h"
#include "support/blocks_on_cpu.h"
#include "support/operator_log.h"

namespace dtrain::layers::batch_norm {
namespace {

namespace blocks = kernels::batch_norm::blocks;
using blocks::ChannelJob;
using blocks::ChannelPass;
using blocks::TensorJob;
using blocks::TensorPass;
using kernels::LaunchResult;
using testing::kOnCpu;

// A runner in place of a GPU.
void run_on(const blocks::Runner& runner) {
  use_norm_kernels(NormKernels{.runner = runner, .device = at::kCPU});
}
std::optional<std::string> disagreement(at::ScalarType dtype,
                                        const blocks::Runner& runner = kOnCpu) {
  return batch_norm::disagreement(runner, at::kCPU, dtype);
}

// What tests leave behind, and what they begin with.
void use_usual_kernels() {
  const char* asked = std::getenv("DTRAIN_TEST_BLOCKS");
  if (asked != nullptr && std::string_view(asked) == "1") return run_on(kOnCpu);
  use_norm_kernels(NormKernels{});
}
class UsualKernels : public ::testing::Environment {
 public:
  void SetUp() override { use_usual_kernels(); }
};
const auto* const kUsualKernels = ::testing::AddGlobalTestEnvironment(new UsualKernels);

class Blocks : public ::testing::Test {
 protected:
  void SetUp() override { run_on(kOnCpu); }
  void TearDown() override { use_usual_kernels(); }
};

// ---- that no thread depends on another within a phase -------------------------------------------

template <typename Kernel>
void run_backwards(const Kernel& kernel) {
  std::vector<typename Kernel::Memory> memory(Kernel::kMemory);
  for (int64_t block = kernel.blocks() - 1; block >= 0; --block) {
    for (int phase = 0; phase < kernel.phases(); ++phase) {
      for (int thread = blocks::kThreads - 1; thread >= 0; --thread)
        kernel.run(phase, block, thread, memory.data());
    }
  }
}
LaunchResult tensor_backwards(const TensorJob& job, void*) {
  blocks::with_kernel<float>(job, [](const auto& kernel) { run_backwards(kernel); });
  return 0;
}
LaunchResult channel_backwards(const ChannelJob& job, void*) {
  blocks::with_kernel<float>(job, [](const auto& kernel) { run_backwards(kernel); });
  return 0;
}

struct Step {
  std::vector<at::Tensor> results;
};

Step step(const at::Tensor& given, const Epilogue& epilogue) {
  const at::Tensor x = given.detach().clone().requires_grad_();
  BatchNorm norm(x.size(1));
  const at::Tensor y = norm->forward_with(x, epilogue);
  (y * y.detach()).sum().backward();
  return {{y.detach(), x.grad(), norm->weight.grad(), norm->bias.grad(), norm->running_mean,
           norm->running_var}};
}

TEST_F(Blocks, GiveTheSameBitsWhateverTheOrderOfThreadsAndBlocks) {
  at::manual_seed(4);
  const at::Tensor image = at::randn({3, 24, 37, 30}),
                   last = image.contiguous(at::MemoryFormat::ChannelsLast);
  for (const at::Tensor& x : {image, last}) {
    for (const bool pool : {false, true}) {
      const Epilogue epilogue = {.activation = Activation::kReLU, .residual = {}, .max_pool = pool};
      run_on(kOnCpu);
      const Step forwards = step(x, epilogue);
      run_on({tensor_backwards, channel_backwards});
      const Step backwards = step(x, epilogue);
      for (size_t i = 0; i < forwards.results.size(); ++i) {
        EXPECT_TRUE(at::equal(forwards.results[i], backwards.results[i]))
            << i << (pool ? ", pooled" : "");
      }
    }
  }
}

// ---- the comparison with LibTorch's operators ---------------------------------------------------

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble};

TEST_F(Blocks, AgreeWithLibTorchInEachType) {
  for (const at::ScalarType dtype : kTypes) {
    EXPECT_EQ(disagreement(dtype).value_or("nothing"), "nothing") << c10::toString(dtype);
  }
}

TEST_F(Blocks, AgreeWithoutDrawingRandomNumbers) {
  at::manual_seed(6);
  const at::Tensor expected = at::randn({3});
  at::manual_seed(6);
  EXPECT_FALSE(disagreement(at::kFloat));
  EXPECT_TRUE(at::equal(at::randn({3}), expected));
}

// Kernels with one mistake: the last of the values that a pass writes is another.
TensorPass wrong_tensor_pass;
ChannelPass wrong_channel_pass;
bool tensor_is_wrong = false, channel_is_wrong = false;

LaunchResult tensor_with_mistake(const TensorJob& job, void* stream) {
  testing::run_on_cpu(job, stream);
  if (!tensor_is_wrong || job.pass != wrong_tensor_pass) return 0;
  const bool sums = job.pass == TensorPass::kSums || job.pass == TensorPass::kGradientSums;
  auto* value = static_cast<float*>(sums ? job.partial : job.out);
  value[sums ? 2 * job.table.channels - 1 : 5] += 3;
  return 0;
}
LaunchResult channel_with_mistake(const ChannelJob& job, void* stream) {
  testing::run_on_cpu(job, stream);
  if (!channel_is_wrong || job.pass != wrong_channel_pass) return 0;
  if (job.pass == ChannelPass::kTotals) job.sums[job.channels - 1] *= 2;
  const bool fixed = job.pass == ChannelPass::kFixedStatistics;
  for (void* value : {fixed ? job.mean : job.running_var, job.weight_gradient, job.slope}) {
    if (value != nullptr) static_cast<float*>(value)[job.channels - 1] += 1;
  }
  return 0;
}
constexpr blocks::Runner kMistaken = {tensor_with_mistake, channel_with_mistake};

TEST_F(Blocks, AMistakeInAnyPassIsFound) {
  EXPECT_FALSE(disagreement(at::kFloat, kMistaken)) << "without the mistake";
  tensor_is_wrong = true;
  for (const TensorPass pass : {TensorPass::kSums, TensorPass::kNormalize,
                                TensorPass::kGradientSums, TensorPass::kInputGradient}) {
    wrong_tensor_pass = pass;
    EXPECT_TRUE(disagreement(at::kFloat, kMistaken)) << static_cast<int>(pass);
  }
  tensor_is_wrong = false;
  channel_is_wrong = true;
  for (const ChannelPass pass :
       {ChannelPass::kTotals, ChannelPass::kStatistics, ChannelPass::kFixedStatistics,
        ChannelPass::kParameterGradients, ChannelPass::kCoefficients, ChannelPass::kGradients}) {
    wrong_channel_pass = pass;
    EXPECT_TRUE(disagreement(at::kFloat, kMistaken)) << static_cast<int>(pass);
  }
  channel_is_wrong = false;
}

constexpr LaunchResult kNoKernelImage = 209, kOutOfMemory = 2;
LaunchResult fails_to_launch(const TensorJob&, void*) { return kNoKernelImage; }
LaunchResult finds_memory_full(const TensorJob&, void*) { return kOutOfMemory; }

TEST_F(Blocks, WrongKernelsAreReportedOnceAndNotUsed) {
  std::vector<std::string> lines;
  const log::LogTap tap([&](std::string_view line) { lines.emplace_back(line); });
  const at::Tensor x = at::randn({4, 6, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const Epilogue relu = {.activation = Activation::kReLU};
  use_norm_kernels(NormKernels{});
  const Step right = step(x, relu);
  run_on({fails_to_launch, testing::run_on_cpu});
  for (int time = 0; time < 2; ++time) {
    const Step found = step(x, relu);
    for (size_t i = 0; i < right.results.size(); ++i)
      EXPECT_TRUE(at::equal(found.results[i], right.results[i])) << i;
  }
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0],
              ::testing::AllOf(::testing::HasSubstr("CUDA error"), ::testing::HasSubstr("Float"),
                               ::testing::HasSubstr("--device.fused_norm false")));
}

// The training reports it, with advice.
TEST_F(Blocks, FullMemoryIsNoReasonToGiveThemUp) {
  run_on({finds_memory_full, testing::run_on_cpu});
  EXPECT_THROW(norm_runner(at::randn({4, 6})), c10::AcceleratorError);
  run_on(kOnCpu);
  EXPECT_NE(norm_runner(at::randn({4, 6})), nullptr) << "compared again";
}

TEST(PreventsComparison, NeitherAFailedDeviceNorFullMemory) {
  const c10::SourceLocation here = {__func__, __FILE__, __LINE__};
  const auto prevents = [&](const c10::Error& error, bool works) {
    return prevents_comparison(error, works);
  };
  EXPECT_TRUE(
      prevents(c10::AcceleratorError(here, kNoKernelImage, "CUDA error: no kernel image"), true));
  EXPECT_TRUE(prevents(c10::Error(here, "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED"), true));
  EXPECT_FALSE(
      prevents(c10::AcceleratorError(here, 700, "CUDA error: an illegal memory access"), false));
  EXPECT_FALSE(prevents(c10::Error(here, "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), false));
  EXPECT_FALSE(
      prevents(c10::AcceleratorError(here, kOutOfMemory, "CUDA error: out of memory"), true));
  EXPECT_FALSE(prevents(c10::OutOfMemoryError(here, "CUDA out of memory"), true));
  EXPECT_FALSE(prevents(
      c10::Error(here, "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"), true));
  EXPECT_FALSE(prevents(c10::Error(here, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED"), true));
}

// at::batch_norm() takes cuDNN where it can, also where its argument says not to.
TEST_F(Blocks, AreComparedWithoutAnOperatorThatChoosesALibrary) {
  const testing::OperatorLog log;
  EXPECT_FALSE(disagreement(at::kFloat));
  EXPECT_GT(log.lines().size(), 100u);
  for (const std::string& line : log.lines())
    EXPECT_THAT(line, ::testing::Not(::testing::HasSubstr("batch_norm")));
}

void refuse(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*) {
  TORCH_CHECK(false, op.schema().name(), " is not supported");
}

// In its place on a GPU: an operator that cuDNN computes, and that it refuses.
TEST_F(Blocks, AreNotUsedWhereTheOtherSideOfTheComparisonCannotBeComputed) {
  constexpr auto kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
  torch::Library others(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
  others.fallback(torch::CppFunction::makeFallthrough());
  torch::Library refused(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
  refused.impl("rsqrt", torch::CppFunction::makeFromBoxedFunction<&refuse>());
  const c10::impl::IncludeDispatchKeyGuard guard(kKey);
  EXPECT_THAT(
      disagreement(at::kFloat).value_or("none"),
      ::testing::HasSubstr(
          "cannot be compared with the definition of batch norm (aten::rsqrt is not supported"));
}

TEST_F(Blocks, AreNotUsedWhenTurnedOff) {
  const at::Tensor x = at::randn({4, 6});
  EXPECT_NE(norm_runner(x), nullptr);
  use_norm_kernels(std::nullopt);
  EXPECT_EQ(norm_runner(x), nullptr);
  run_on(kOnCpu);
  EXPECT_EQ(norm_runner(at::empty({0, 6})), nullptr) << "no values";
  use_norm_kernels(NormKernels{});
  EXPECT_EQ(norm_runner(x), nullptr) << "on the CPU";
}

}  // namespace
}  // namespace dtrain::layers::batch_norm
