#pragma once

#include <atomic>

namespace dtrain::job {

inline constexpr int kExitInterrupted = 130;  // of a command that saves no checkpoints, as shells have it for Ctrl-C

// SIGUSR1 (and, without mpirun, SIGTERM, SIGHUP and the first Ctrl-C) ask to save at the next step boundary and leave
// with exit code 75. Under mpirun a SIGTERM is treated alike: one second is left, so the save is best effort. A second
// Ctrl-C ends the process at once. Returns the flag that the handlers set.
const std::atomic<bool>& install_stop_signals();

// The first part of it, for the time before the run is known: a SIGUSR1 is remembered instead of ending the process.
// Ctrl-C and SIGTERM still end it at once, as nothing is lost yet.
void remember_early_stop();

}  // namespace dtrain::job
