#include "dist/failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <optional>
#include <thread>

#include "core/error.h"
#include "dist/agree.h"
#include "dist/launcher.h"
#include "dist/peer_error.h"

namespace dtrain::dist {
namespace {

using ::testing::HasSubstr;

constexpr c10::SourceLocation kHere{"f", "x.cpp", 1};

const c10::AcceleratorError kIllegalAddress(
    kHere, 700,
    "CUDA error: an illegal memory access was encountered\nSearch for "
    "`cudaErrorIllegalAddress' in the documentation");

template <typename Exception>
Failure failure_of(const Exception& exception) {
  return describe(std::make_exception_ptr(exception));
}

TEST(OutOfMemory, IsWhatTheAllocatorTheRuntimeAndTheLibrariesSayOfIt) {
  EXPECT_TRUE(is_out_of_memory(
      c10::OutOfMemoryError(kHere, "CUDA out of memory. Tried to allocate 2 GiB")));
  EXPECT_TRUE(
      is_out_of_memory(c10::AcceleratorError(kHere, 2, "CUDA error: cudaErrorMemoryAllocation")));
  for (const char* text :
       {"CUDA error: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "ncclAllReduce failed: unhandled cuda error (Cuda failure 2 'out of memory')"}) {
    EXPECT_TRUE(is_out_of_memory(c10::Error(kHere, text))) << text;
    EXPECT_EQ(failure_of(c10::Error(kHere, text)).exit_code, 69) << text;
    EXPECT_THAT(failure_of(c10::Error(kHere, text)).message, HasSubstr("out of device memory: "))
        << text;
  }
}

std::optional<MissingMemory> missing_for(const auto& exception) {
  return missing_memory(std::make_exception_ptr(exception));
}

TEST(MissingMemory, SaysWhatCouldNotBeAllocated) {
  EXPECT_EQ(missing_for(std::bad_alloc()).value().what, "the host's memory is full");
  const auto host =
      missing_for(c10::Error(kHere,
                             "DefaultCPUAllocator: can't allocate memory: you tried to allocate "
                             "1048576 bytes. Error code 12 (Cannot allocate memory)"));
  EXPECT_EQ(host.value().what, "no host memory for a tensor of 1.0 MiB");
  EXPECT_EQ(host->bytes, 1 << 20);
  const auto device =
      missing_for(c10::OutOfMemoryError(kHere, "CUDA out of memory. Tried to allocate 2.00 GiB."));
  EXPECT_THAT(device.value().what, HasSubstr("CUDA out of memory"));
  EXPECT_EQ(device->bytes, 2.0 * (1 << 30));
}

TEST(MissingMemory, IsNoneInOtherErrors) {
  EXPECT_EQ(missing_for(c10::Error(kHere, "shape '[2]' is invalid for input of size 3")),
            std::nullopt);
  EXPECT_EQ(missing_for(kIllegalAddress), std::nullopt);
  EXPECT_EQ(missing_for(DataError("no such file")), std::nullopt);
  EXPECT_EQ(missing_for(3), std::nullopt);
}

TEST(OutOfMemory, IsNothingElse) {
  EXPECT_FALSE(is_out_of_memory(kIllegalAddress));
  EXPECT_TRUE(says_failed(kIllegalAddress));
  EXPECT_FALSE(
      says_failed(c10::AcceleratorError(kHere, 2, "CUDA error: cudaErrorMemoryAllocation")));
  for (const char* text :
       {"shape '[2]' is invalid for input of size 3", "cuDNN error: CUDNN_STATUS_BAD_PARAM",
        "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`"}) {
    EXPECT_FALSE(is_out_of_memory(c10::Error(kHere, text))) << text;
    EXPECT_EQ(failure_of(c10::Error(kHere, text)).exit_code, 70) << text;
  }
}

TEST(Failure, OfTheGpuIsADeviceErrorInOneLine) {
  const Failure failure = failure_of(kIllegalAddress);
  EXPECT_EQ(failure.exit_code, 69);
  EXPECT_EQ(failure.message,
            "the GPU has failed: CUDA error: an illegal memory access was encountered");
}

TEST(Failure, OfAPathThatCannotBeUsedNamesItAndTheReason) {
  const std::string name(300, 'x');
  Failure failure{};
  try {
    static_cast<void>(std::filesystem::exists(name));
  } catch (...) {
    failure = describe(std::current_exception());
  }
  EXPECT_EQ(failure.exit_code, 65);
  EXPECT_EQ(failure.message, "cannot use " + name + ": File name too long");
}

// ---- exceptions that no handler can catch

void use_the_gpu() { throw kIllegalAddress; }

struct UsesTheGpuWhenDestroyed {
  ~UsesTheGpuWhenDestroyed() { use_the_gpu(); }  // noexcept, as that of LibTorch's tensors
};

TEST(TerminateDeathTest, SaysWhatADestructorThrewAndLeavesWithItsExitCode) {
  EXPECT_EXIT(
      {
        report_when_terminated();
        const UsesTheGpuWhenDestroyed broken;
      },
      ::testing::ExitedWithCode(69),
      "error: the GPU has failed: CUDA error: an illegal memory access was encountered");
}

TEST(Describe, SaysWhoseFailureItIs) {
  EXPECT_EQ(failure_of(DataError("x.h5 is damaged")).culprit, launcher_rank_hint());
  EXPECT_EQ(failure_of(CommError("two networks")).culprit, launcher_rank_hint());
  EXPECT_EQ(failure_of(PeerError("rank 3 has died", 3)).culprit, 3);
  EXPECT_EQ(failure_of(PeerError("a barrier failed")).culprit, std::nullopt);
  EXPECT_EQ(failure_of(AgreedFailure{65, 2}).culprit, 2);
}

TEST(Report, WritesALineForASupervisorBesideTheOneForPeople) {
  const auto printed = [](const Failure& failure) {
    ::testing::internal::CaptureStderr();
    report(failure);
    return ::testing::internal::GetCapturedStderr();
  };
  const Failure failure = failure_of(PeerError("rank 3 has died\n  at step 5", 3));
  const std::string for_people = "error: rank 3 has died\n  at step 5\n";
  EXPECT_EQ(printed(failure), for_people);
  ::setenv(kSupervised, "1", 1);
  const std::string both = printed(failure);
  EXPECT_EQ(printed(failure_of(AgreedFailure{65, 2})), "") << "another rank has said it";
  ::unsetenv(kSupervised);
  ASSERT_TRUE(both.starts_with(for_people)) << both;
  const std::string line = both.substr(for_people.size());
  ASSERT_TRUE(line.ends_with('\n')) << line;
  const auto read = parse_supervisor_line(line.substr(0, line.size() - 1));
  ASSERT_TRUE(read) << line;
  FailureRecord expected = record_of(failure);
  expected.text = "error: rank 3 has died";
  EXPECT_EQ(std::get<FailureRecord>(read->record), expected);
  EXPECT_EQ(expected.culprit, 3);
  EXPECT_EQ(expected.kind, FailureKind::kComm);
  EXPECT_EQ(expected.exit_code, 76);
  EXPECT_EQ(read->before, "");
}

TEST(TerminateDeathTest, SaysWhatAThreadThrew) {
  EXPECT_EXIT(
      {
        report_when_terminated();
        std::thread([] { throw DataError("x.h5 is damaged"); }).join();
      },
      ::testing::ExitedWithCode(65), "error: x.h5 is damaged");
}

TEST(TerminateDeathTest, OfTwoThreadsAtOnceDoesNotLoseTheMessage) {
  EXPECT_EXIT(
      {
        report_when_terminated();
        std::atomic<int> ready = 0;
        const auto fail = [&ready] {
          for (++ready; ready < 2;) std::this_thread::yield();
          throw DataError("x.h5 is damaged");
        };
        std::thread other(fail);
        std::thread(fail).join();
      },
      ::testing::ExitedWithCode(65), "error: x.h5 is damaged");
}

TEST(TerminateDeathTest, SaysNothingAgainThatAnotherRankHasSaid) {
  EXPECT_EXIT(
      {
        report_when_terminated();
        std::thread([] { throw AgreedFailure{65}; }).join();
      },
      ::testing::ExitedWithCode(65), "^$");
}

TEST(TerminateDeathTest, WithoutAnExceptionIsAnInternalError) {
  EXPECT_EXIT(
      {
        report_when_terminated();
        std::terminate();
      },
      ::testing::ExitedWithCode(70), "error: internal error: ");
}

}  // namespace
}  // namespace dtrain::dist
