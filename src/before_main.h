#pragma once

// What is done once the dynamic linker has placed and linked the libraries, before the first
// constructor of any of them runs (.preinit_array, which only an executable has). What happens in
// the tenth of the start before that cannot be answered.
//
// SIGUSR1, SIGUSR2 and SIGTERM wait until main() has an answer to them. Before that they would end
// the process, and LibTorch alone takes a third of a second to load, on a busy machine a whole one.
//
// A current folder that was removed is left for the root folder: oneMKL looks for it when it loads,
// and ends the process if it is not there.

namespace dtrain {

// Gives the thread that calls it the signal mask that the process was started with. A signal that
// came meanwhile is delivered now. To be called in main(), once the handlers are set, before there
// are threads and child processes.
void admit_early_signals();

// Whether the process was started in a folder that had been removed. Relative paths lead
// nowhere then.
bool current_folder_was_removed();

}  // namespace dtrain
