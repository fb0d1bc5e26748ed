#pragma once

#include <string_view>

namespace dtrain::dist {

// Throws CommError with MPI's own text unless `code` is MPI_SUCCESS. `call` names the MPI function.
void check_mpi(int code, std::string_view call);

}  // namespace dtrain::dist
