// The main of tests without MPI. verdict.h says how skipped tests count.

#include "support/verdict.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const int ignored = RUN_ALL_TESTS();
  static_cast<void>(ignored);
  const auto& unit = *::testing::UnitTest::GetInstance();
  return dtrain::testing::verdict(unit.failed_test_count(), unit.skipped_test_count(),
                                  unit.successful_test_count());
}
