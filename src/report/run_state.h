#pragma once

// Whether a run is being trained, and how it ended if not. A run that says neither `finished` nor
// `failed`, and whose lock nobody holds, has crashed. Pure but for is_run_folder().

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/named_enum.h"

namespace dtrain::report {

enum class RunState { kRunning, kFinished, kStopped, kFailed, kCrashed, kNothing };
constexpr auto names_of(RunState) {
  return names("running", "finished", "stopped", "failed", "crashed", "no metrics");
}

// `last_state`: of the last `state` record, "" without any; `reason`: after "finished: " in the
// log. A run that ended before its planned steps was stopped: on request, or because its metric no
// longer improved.
RunState state_of(bool locked, std::string_view last_state, std::string_view reason, int64_t step,
                  int64_t planned);

// What follows "finished: " in the last such line, up to " | "; "" if there is none, or if a
// process that resumed the run has begun after it.
std::string reason_in_log(std::string_view log_tail);

// Whether the folder has files that only a run writes, or those of one that ended before it
// wrote them.
bool is_run_folder(const std::filesystem::path&);

}  // namespace dtrain::report
