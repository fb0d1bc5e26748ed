#pragma once

// Who is here: from MPI, never from a launcher's environment variables (those are read in world.cpp only for hints
// before MPI_Init and to refuse a wrong launch).

#include <memory>
#include <string>

namespace dtrain::dist {

struct World {
  int rank = 0, size = 1;              // of the job
  int local_rank = 0, local_size = 1;  // on this host, by MPI's shared-memory split
  std::string node;                    // host name
  bool launched = false;               // by mpirun or srun: stdout is a pty that nobody sees as one
};

// The launcher's hints before MPI_Init: this process's rank (0 if there is none), for who may print early errors; and
// how many processes it started (1 if it does not say), for commands that do without MPI.
int launcher_rank_hint();
int launcher_size_hint();

std::string mpi_library_version();  // "Open MPI v4.1.4"; before MPI_Init too

// Owns MPI_Init_thread / MPI_Finalize. Requires MPI_THREAD_MULTIPLE (CommError otherwise). Refuses (UsageError, with
// the cure) one process of many started by srun without PMIx: each would train alone as rank 0 of 1. MPI's own errors
// become CommError.
class MpiSession {
 public:
  MpiSession(int* argc, char*** argv);
  // Without close(): finalizes on the good path; while an exception passes it leaves MPI as it is, because finalizing
  // would wait for ranks that wait for this one. Whoever catches calls abort().
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  const World& world() const { return world_; }
  // All ranks meet, then MPI_Finalize; returns the largest of the ranks' exit codes, so that they leave with one.
  // Collective.
  int close(int exit_code);
  // The last resort: this rank failed and the others wait in a collective. Ends the job with `exit_code`, within
  // seconds even if MPI itself stands still. Any thread may call it.
  [[noreturn]] void abort(int exit_code) noexcept;

 private:
  World world_;
  bool open_ = false;
};

}  // namespace dtrain::dist
