// Delays MPI_Abort by a second for a rank that ends the job with an error of its data (65), for a
// program that is started with LD_PRELOAD: as if another program had the core at this moment. Ranks
// that miss this one are not delayed.

#include <dlfcn.h>
#include <unistd.h>

extern "C" int MPI_Abort(void* comm, int code) {
  using Function = int(void*, int);
  static auto* const real = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, "MPI_Abort"));
  if (code == 65) ::sleep(1);
  return real(comm, code);
}
