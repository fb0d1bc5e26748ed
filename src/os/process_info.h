#pragma once

// What the kernel tells of another process, and the names of dtrain's own threads. Thread-safety:
// any thread.

#include <filesystem>
#include <optional>
#include <string>

namespace dtrain {

struct ProcessInfo {
  std::string name;  // name of the program, at most 15 characters
  int parent = 0;
};
std::optional<ProcessInfo> process_info(int process);  // none: it has ended, or /proc is not there

// The file that a process runs; "" if it has ended, or is another user's.
std::filesystem::path program_of(int process);

// The names of threads, as `top -H`, debuggers and /proc/self/task/ID/comm show them. The diagnosis
// tells by them which threads compute: those that have none of these names (os/counters.h).
inline constexpr const char* kReaderThread = "dt-reader";    // thread of a loader
inline constexpr const char* kCommThread = "dt-comm";        // thread of a communicator
inline constexpr const char* kServiceThread = "dt-service";  // watchdog, metrics, sensors

// Names the calling thread; threads that it starts later inherit it. At most 15 characters.
void name_this_thread(const char* name);

}  // namespace dtrain
