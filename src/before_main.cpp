#include "before_main.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>

namespace dtrain {
namespace {

using KernelMask = uint64_t;  // a bit for each signal, from 1 on

KernelMask mask_of_parent = 0;
bool folder_was_removed = false;

constexpr KernelMask bit(int signal) { return KernelMask{1} << (signal - 1); }

// The C library and sanitizers are not ready yet, so these are system calls, and not instrumented.
__attribute__((no_sanitize("address", "thread", "undefined"))) void prepare(int, char**, char**) {
  const KernelMask waiting = bit(SIGUSR1) | bit(SIGUSR2) | bit(SIGTERM);
  ::syscall(SYS_rt_sigprocmask, SIG_BLOCK, &waiting, &mask_of_parent, sizeof waiting);
  char folder[PATH_MAX];
  if (::syscall(SYS_getcwd, folder, sizeof folder) < 0 && errno == ENOENT) {
    folder_was_removed = ::syscall(SYS_chdir, "/") == 0;
  }
}

__attribute__((section(".preinit_array"), used)) void (*const first_of_all)(int, char**,
                                                                            char**) = prepare;

}  // namespace

void admit_early_signals() {
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask_of_parent, nullptr, sizeof mask_of_parent);
}

bool current_folder_was_removed() { return folder_was_removed; }

}  // namespace dtrain
