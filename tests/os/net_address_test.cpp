#include "os/net_address.h"

#include <gtest/gtest.h>

namespace dtrain {
namespace {

TEST(HostName, IsKnown) {
  EXPECT_NE(host_name(), "");
  EXPECT_EQ(host_name().find('\0'), std::string::npos);
}

}  // namespace
}  // namespace dtrain
