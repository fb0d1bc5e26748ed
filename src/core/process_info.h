#pragma once

// What the kernel tells of another process. Thread-safety: any thread.

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

}  // namespace dtrain
