#include "early_signals.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

namespace dtrain {
namespace {

using KernelMask = uint64_t;  // a bit for each signal, from 1 on

KernelMask mask_of_parent = 0;

constexpr KernelMask bit(int signal) { return KernelMask{1} << (signal - 1); }

// The C library and sanitizers are not ready yet, so this is a system call, and not instrumented.
__attribute__((no_sanitize("address", "thread", "undefined"))) void block(int, char**, char**) {
  const KernelMask waiting = bit(SIGUSR1) | bit(SIGUSR2) | bit(SIGTERM);
  ::syscall(SYS_rt_sigprocmask, SIG_BLOCK, &waiting, &mask_of_parent, sizeof waiting);
}

__attribute__((section(".preinit_array"), used)) void (*const first_of_all)(int, char**, char**) = block;

}  // namespace

void admit_early_signals() {
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask_of_parent, nullptr, sizeof mask_of_parent);
}

}  // namespace dtrain
