// Faults of a machine that a test cannot make otherwise, for a program that is started with
// LD_PRELOAD: a clock that is ODD_CLOCK seconds ahead, and, with ODD_LOCKS=none, a file system
// without locks.

#include <dlfcn.h>
#include <sys/file.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>

extern "C" int clock_gettime(clockid_t which, timespec* time) {
  using ClockGettime = int (*)(clockid_t, timespec*);
  static const auto real = reinterpret_cast<ClockGettime>(::dlsym(RTLD_NEXT, "clock_gettime"));
  static const char* const ahead = std::getenv("ODD_CLOCK");
  const int result = real(which, time);
  if (ahead != nullptr && which == CLOCK_REALTIME) time->tv_sec += std::atol(ahead);
  return result;
}

extern "C" int flock(int file, int operation) {
  using Flock = int (*)(int, int);
  static const auto real = reinterpret_cast<Flock>(::dlsym(RTLD_NEXT, "flock"));
  static const bool none = std::getenv("ODD_LOCKS") != nullptr;
  if (!none) return real(file, operation);
  errno = ENOLCK;
  return -1;
}
