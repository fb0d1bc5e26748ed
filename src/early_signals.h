#pragma once

// SIGUSR1, SIGUSR2 and SIGTERM wait until main() has an answer to them. Before that they would end the
// process, and LibTorch alone takes a third of a second to load, on a busy machine a whole one.
//
// They are blocked once the dynamic linker has placed and linked the libraries, before the first
// constructor of any of them runs (.preinit_array, which only an executable has). What comes in the
// tenth of the start before that still ends the process.

namespace dtrain {

// Gives the thread that calls it the signal mask that the process was started with. A signal that
// came meanwhile is delivered now. To be called in main(), once the handlers are set, before there
// are threads and child processes.
void admit_early_signals();

}  // namespace dtrain
