#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>

#include "monitoring/gpu_reader.h"

namespace dtrain::monitoring {
namespace {

using measure::Quantity;

template <typename Function>
Function fake(const char* name) {
  return reinterpret_cast<Function>(::dlsym(::dlopen(FAKE_NVML, RTLD_NOW), name));
}

TEST(Nvml, ReadsTheGpuOfThePciBusId) {
  {
    const OpenedReader opened = open_nvml("0000:65:00.0", FAKE_NVML);
    ASSERT_TRUE(opened.reader) << opened.problem;
    EXPECT_EQ(opened.reader->name(), "Fake GPU");
    EXPECT_EQ(opened.reader->uuid(), "GPU-fake");
    const std::optional<GpuReading> r = opened.reader->read();
    ASSERT_TRUE(r);
    EXPECT_DOUBLE_EQ(r->values[Quantity::kGpuUtilization], 0.97);
    EXPECT_DOUBLE_EQ(r->values[Quantity::kGpuMemoryUtilization], 0.41);
    EXPECT_EQ(r->values[Quantity::kGpuMemoryUsed], 8e9);
    EXPECT_EQ(r->values[Quantity::kGpuMemory], 24e9);
    EXPECT_DOUBLE_EQ(r->values[Quantity::kGpuPower], 342.5);
    EXPECT_EQ(r->values[Quantity::kSmClock], 1695e6);
    EXPECT_EQ(r->values[Quantity::kHighestSmClock], 2100e6);
    EXPECT_EQ(r->values[Quantity::kGpuMemoryClock], 9501e6);
    EXPECT_EQ(r->throttle_mask, 0x44u) << "found by its older name";
    EXPECT_TRUE(std::isnan(r->energy)) << "not supported by this card";
    EXPECT_TRUE(std::isnan(r->values[Quantity::kGpuTemperature])) << "missing in this driver";
  }
  EXPECT_EQ(fake<int (*)()>("fake_open_sessions")(), 0);
}

TEST(Nvml, SettingsThatTheCardReports) {
  const OpenedReader opened = open_nvml("0000:65:00.0", FAKE_NVML);
  ASSERT_TRUE(opened.reader);
  const GpuSettings settings = opened.reader->settings();
  EXPECT_EQ(settings.persistence, false);
  EXPECT_EQ(settings.power_limit, 280);
  EXPECT_FALSE(settings.default_power_limit) << "not supported by this card";
}

TEST(Nvml, ALostGpuHasNoReading) {
  const OpenedReader opened = open_nvml("0000:65:00.0", FAKE_NVML);
  ASSERT_TRUE(opened.reader);
  fake<void (*)()>("fake_lose_gpu")();
  EXPECT_FALSE(opened.reader->read());
}

TEST(Nvml, SaysWhyThereIsNoReader) {
  const OpenedReader other = open_nvml("0000:01:00.0", FAKE_NVML);
  EXPECT_FALSE(other.reader);
  EXPECT_EQ(other.problem, "GPU 0000:01:00.0: Not Found");
  EXPECT_EQ(fake<int (*)()>("fake_open_sessions")(), 0);
  const OpenedReader none = open_nvml("0000:65:00.0", "libno-such-nvml.so.1");
  EXPECT_FALSE(none.reader);
  EXPECT_NE(none.problem.find("libno-such-nvml.so.1"), std::string::npos) << none.problem;
  const OpenedReader wrong = open_nvml("0000:65:00.0", "libc.so.6");
  EXPECT_FALSE(wrong.reader);
  EXPECT_NE(wrong.problem.find("libc.so.6 is not NVML"), std::string::npos) << wrong.problem;
}

}  // namespace
}  // namespace dtrain::monitoring
