#pragma once

// What `dtrain doctor` has to say about a machine and a launch. Plain values.

#include <string>
#include <utility>
#include <vector>

#include "text/named_enum.h"

namespace dtrain::doctor {

// kBlocks: the run would not start, not reach its end, or not train what was asked for. kSlows: it
// would take longer than it has to. kNote: worth knowing.
enum class Severity { kBlocks, kSlows, kNote };
constexpr auto names_of(Severity) { return names("blocks", "slows", "note"); }

struct DoctorFinding {
  std::string check;  // the name of the check that made it
  Severity severity = Severity::kNote;
  std::string cause;     // what is wrong, and what follows from it
  std::string evidence;  // the values that say so
  // First a command, a flag or a variable: what fixes it, or where nothing typed can, what shows
  // it; then words.
  std::string fix;
  std::vector<int> ranks;
  std::vector<std::string> hosts;
};

// What one check found. No findings and nothing unchecked: it looked at all ranks, and all
// is right.
struct Outcome {
  std::vector<DoctorFinding> findings;
  std::vector<std::string> unchecked;  // why something could not be looked at: "no GPU"

  DoctorFinding& add(Severity severity, std::string cause, std::string evidence, std::string fix) {
    findings.push_back(
        {"", severity, std::move(cause), std::move(evidence), std::move(fix), {}, {}});
    return findings.back();
  }
};

}  // namespace dtrain::doctor
