#pragma once

// Who takes part in the job: from MPI, never from a launcher's environment variables (launcher.h
// has those that are read). And what any part of dist/ does with MPI itself.

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
  // One list per rank: network addresses of its host, as address_text(), without those that this
  // host has too.
  std::vector<std::vector<std::string>> addresses = {};

  bool several_hosts() const { return local_size < size; }
};

std::string mpi_library_version();  // "Open MPI v4.1.4"; also before MPI_Init

// Throws CommError with MPI's own text unless `code` is MPI_SUCCESS. `call` names the MPI function.
void check_mpi(int code, std::string_view call);

// The last resort: this rank failed and the others wait in a collective. Ends the job with
// `exit_code`, within seconds even if MPI itself hangs; ends this process if MPI is not
// initialized. May be called from any thread.
[[noreturn]] void abort_job(int exit_code) noexcept;

}  // namespace dtrain::dist
