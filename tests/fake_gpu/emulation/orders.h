#pragma once

// Tests of emulated kernels run in three orders of threads and blocks.

#include <gtest/gtest.h>

#include "emulation/emulation.h"

namespace emulation {

class InEachOrder : public ::testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override { set_order(GetParam()); }
  void TearDown() override { set_order(kAscending); }
};

inline const auto kOrders = ::testing::Values(kAscending, kDescending, 17u);

}  // namespace emulation
