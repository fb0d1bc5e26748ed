// Simulates a disk on which each fsync takes a second, for a program that is started
// with LD_PRELOAD.

#include <dlfcn.h>
#include <unistd.h>

extern "C" int fsync(int file) {
  using Fsync = int (*)(int);
  static const auto real = reinterpret_cast<Fsync>(::dlsym(RTLD_NEXT, "fsync"));
  ::sleep(1);
  return real(file);
}
