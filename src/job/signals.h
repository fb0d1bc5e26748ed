#pragma once

#include <atomic>
#include <functional>

#include "core/parallel.h"

namespace dtrain::job {

// Exit code of a command that saves no checkpoints; what shells report for Ctrl-C
inline constexpr int kExitInterrupted = 130;

// SIGUSR1 (and, without mpirun, SIGTERM, SIGHUP and the first Ctrl-C) ask to save at the next step
// boundary and leave with exit code 75. Under mpirun SIGTERM does the same, but mpirun leaves one
// second, so the save is best effort. A second Ctrl-C ends the process at once. Returns the flag
// that the handlers set.
const std::atomic<bool>& install_stop_signals();

// SIGUSR2 asks for the verdict so far, and never ends the process. Returns the flag that its
// handler sets, and the training thread clears.
std::atomic<bool>& install_verdict_signal();

// For the time before the run has a folder, from the beginning of main() on: SIGUSR1 and SIGUSR2
// are remembered instead of ending the process. SIGTERM ends a process that trains alone at once,
// with exit code 75: nothing is lost yet, and the same command does it all. One of several ranks
// ends by it, as by Ctrl-C: their launcher sends it when another one has failed, whose exit
// code counts.
void remember_early_signals();

// Runs long `work` without checkpoints, such as a conversion, and shows the progress that it
// reports (core/progress_line.h). After Ctrl-C or SIGTERM the next report throws, so that `work`
// ends early and removes what it began; then the result is false. A second Ctrl-C ends the process
// at once.
bool run_interruptible(const std::function<void(const ReportProgress&)>& work);

}  // namespace dtrain::job
