#pragma once

// MPI from its start to its end, and the World of the job that it finds.

#include "dist/world.h"

namespace dtrain::dist {

// Owns MPI_Init_thread and MPI_Finalize. Requires MPI_THREAD_MULTIPLE (CommError otherwise).
// UsageError with advice for one of several processes that srun started without PMIx: each would
// train alone as rank 0 of 1. MPI's own errors become CommError. MPI_Init runs with settings that
// are unset after it, so that ranks of one host and a lone process listen on no port for MPI.
class MpiSession {
 public:
  MpiSession(int* argc, char*** argv);
  // Without close(): finalizes, but not while an exception passes, because finalizing would wait
  // for ranks that wait for this one. Whoever catches the exception calls abort().
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  const World& world() const { return world_; }
  // Waits for all ranks, then calls MPI_Finalize. Returns the largest of the ranks' exit codes, so
  // that all leave with the same one. Collective.
  int close(int exit_code);
  [[noreturn]] void abort(int exit_code) noexcept { abort_job(exit_code); }

 private:
  World world_;
  bool open_ = false;
};

}  // namespace dtrain::dist
