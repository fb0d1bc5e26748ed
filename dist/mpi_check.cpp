#include "dist/mpi_check.h"

#include <mpi.h>

#include "core/error.h"
#include "core/strings.h"

namespace dtrain::dist {

void check_mpi(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommError(str(call, " failed: ", text));
}

}  // namespace dtrain::dist
