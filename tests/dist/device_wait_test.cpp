#include "dist/device_wait.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "dist/lone_communicator.h"

namespace dtrain::dist {
namespace {

TEST(DeviceWait, EndsWhenTheDeviceHasPassed) {
  const auto comm = make_lone_communicator();
  int asked = 0;
  wait_until([&] { return ++asked == 100; }, {comm.get(), nullptr});
  EXPECT_EQ(asked, 100);
  wait_for_device(at::kCPU, {comm.get()});
}

// The device never passes, because its collective waits for a rank that cannot be reached.
TEST(DeviceWait, EndsWithTheErrorOfACommunicatorThatFails) {
  const auto good = make_lone_communicator(), bad = make_lone_communicator();
  int asked = 0;
  try {
    wait_until(
        [&] {
          if (++asked == 50) bad->abort("the link is down");
          return false;
        },
        {good.get(), bad.get()});
    FAIL();
  } catch (const CommError& error) {
    EXPECT_NE(std::string(error.what()).find("the link is down"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(asked, 50);
}

}  // namespace
}  // namespace dtrain::dist
