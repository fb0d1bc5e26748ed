#pragma once

// Who takes part in the job: from MPI, never from a launcher's environment variables (world.cpp
// reads those only for hints before MPI_Init and to refuse a wrong launch). And the MPI
// session itself.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::dist {

struct World {
  int rank = 0, size = 1;               // this rank, and the number of ranks of the job
  int local_rank = 0, local_size = 1;   // on this host, by MPI's shared-memory split
  int host = 0;                         // the lowest rank on this host, which no other host has
  std::string node;                     // host name
  std::vector<std::string> nodes = {};  // those of all ranks
  bool launched = false;  // mpirun or srun started it: stdout may be a pty that no person looks at
  // By rank: network addresses of its host, as address_text(), without those that this host
  // has too.
  std::vector<std::vector<std::string>> addresses = {};

  bool several_hosts() const { return local_size < size; }
};

// The launcher's hints before MPI_Init: this process's rank, and the one on its host (0 if there is
// none), which decide who prints early errors; and the number of processes that it started (1 if it
// does not say), for commands that do not use MPI. MPI_Init sets PMIX_RANK in a lone process too,
// so whether a launcher started the process is asked before it.
int launcher_rank_hint();
int launcher_local_rank_hint();
int launcher_size_hint();

// NAME in the environment of the ranks of `dtrain launch`, which reads their supervisor_lines.h.
inline constexpr const char* kSupervised = "DTRAIN_SUPERVISED";
bool has_supervisor();

// The value of an environment variable by which users steer a library below dtrain
// (NCCL_P2P_DISABLE), for `doctor`; "" if it is not set. dtrain itself is steered by its
// configuration alone.
std::string library_variable(const char* name);

std::string mpi_library_version();  // "Open MPI v4.1.4"; also before MPI_Init

// Throws CommError with MPI's own text unless `code` is MPI_SUCCESS. `call` names the MPI function.
void check_mpi(int code, std::string_view call);

// The last resort: this rank failed and the others wait in a collective. Ends the job with
// `exit_code`, within seconds even if MPI itself hangs; ends this process if MPI is not
// initialized. May be called from any thread.
[[noreturn]] void abort_job(int exit_code) noexcept;

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
