// Simulates a slow disk, for a program that is started with LD_PRELOAD: each read of a part of a data file (.h5) takes
// SLOW_READS_MS milliseconds more.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

bool is_data_file(int file) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t size = ::readlink(link, path, sizeof path);
  return size > 0 && std::string_view(path, static_cast<size_t>(size)).ends_with(".h5");
}

void delay(int file) {
  static const useconds_t microseconds = [] {
    const char* text = std::getenv("SLOW_READS_MS");
    return text == nullptr ? 0u : static_cast<useconds_t>(std::atoi(text)) * 1000u;
  }();
  if (is_data_file(file)) ::usleep(microseconds);
}

}  // namespace

extern "C" ssize_t pread(int file, void* data, size_t size, off_t offset) {
  using Pread = ssize_t (*)(int, void*, size_t, off_t);
  static const auto real = reinterpret_cast<Pread>(::dlsym(RTLD_NEXT, "pread"));
  delay(file);
  return real(file, data, size, offset);
}

extern "C" ssize_t pread64(int file, void* data, size_t size, off64_t offset) {
  using Pread = ssize_t (*)(int, void*, size_t, off64_t);
  static const auto real = reinterpret_cast<Pread>(::dlsym(RTLD_NEXT, "pread64"));
  delay(file);
  return real(file, data, size, offset);
}
