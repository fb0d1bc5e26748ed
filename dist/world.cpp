#include "dist/world.h"

#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <thread>

#include "dist/peer_error.h"
#include "text/strings.h"

namespace dtrain::dist {

void check_mpi(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw PeerError(str(call, " failed: ", text));
}

std::string mpi_library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  check_mpi(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  return split(std::string_view(text, static_cast<size_t>(length)), ',').front();
}

void abort_job(int exit_code) noexcept {
  try {
    // MPI_Abort asks mpirun to end the job and may wait for an answer that never comes.
    std::thread([exit_code] {
      std::this_thread::sleep_for(std::chrono::seconds(3));
      ::_exit(exit_code);
    }).detach();
  } catch (const std::exception&) {
    // No thread can be started: MPI_Abort alone has to end the job.
  }
  int initialized = 0, finalized = 0, size = 1;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized && !finalized) MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > 1) MPI_Abort(MPI_COMM_WORLD, exit_code);  // prints a page of its own
  ::_exit(exit_code);
}

}  // namespace dtrain::dist
