// The main of tests on real MPI ranks. The ranks sum how many tests failed, were skipped and
// passed, and all return the same exit code: a rank that skips its tests and exits first must not
// hide the failure of another.

#include <mpi.h>

#include "support/verdict.h"

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  ::testing::InitGoogleTest(&argc, argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) {
    // Only rank 0 prints a full report; the others print their failures.
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    class FailuresOnly : public ::testing::EmptyTestEventListener {
     public:
      explicit FailuresOnly(int rank) : rank_(rank) {}
      void OnTestPartResult(const ::testing::TestPartResult& result) override {
        if (!result.failed()) return;
        std::printf("[rank %d] %s:%d: %s\n", rank_, result.file_name(), result.line_number(),
                    result.message());
      }

     private:
      int rank_;
    };
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly(rank));
  }
  const int ignored = RUN_ALL_TESTS();
  static_cast<void>(ignored);
  const auto& unit = *::testing::UnitTest::GetInstance();
  int counts[3] = {unit.failed_test_count(), unit.skipped_test_count(),
                   unit.successful_test_count()};
  MPI_Allreduce(MPI_IN_PLACE, counts, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return dtrain::testing::verdict(counts[0], counts[1], counts[2]);
}
