#pragma once

// Whether a run is being trained, and how it ended if not. A run that says neither `finished` nor
// `failed`, and whose lock is free, has crashed. Pure but for is_run_folder().

#include <cstdint>
#include <filesystem>
#include <string>

#include "text/named_enum.h"

namespace dtrain::report {

enum class RunState { kRunning, kFinished, kStopped, kFailed, kCrashed, kNothing };
constexpr auto names_of(RunState) {
  return names("running", "finished", "stopped", "failed", "crashed", "no metrics");
}

// The last record of kind `state`.
struct StateRecord {
  std::string state = {};   // "": there is none
  int64_t exit_code = 0;    // set when the process has ended
  std::string reason = {};  // why it ended; "": not known
};

// A run that ended before its planned steps was stopped: on request, or because its metric no
// longer improved.
RunState state_of(bool locked, const StateRecord& last, int64_t step, int64_t planned);

// Whether the folder has files that only a run writes, or those of one that ended before it
// wrote them.
bool is_run_folder(const std::filesystem::path&);

}  // namespace dtrain::report
