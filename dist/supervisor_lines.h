#pragma once

// What the ranks of a job tell `dtrain launch`: lines of JSON on standard error, one beside each
// error message and one for the run folder. The supervisor reads these and never the words for
// people, so that words can change. docs/file_formats.md specifies the lines.
// Pure. Thread-safety: any thread.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "text/named_enum.h"

namespace dtrain::dist {

// The type of an error (core/error.h).
enum class FailureKind : uint8_t {
  kInternal,
  kUsage,
  kData,
  kDevice,
  kOutput,
  kCheckpoint,
  kComm,
  kConfig,
  kNumerics
};
constexpr auto names_of(FailureKind) {
  return names("internal", "usage", "data", "device", "output", "checkpoint", "comm", "config",
               "numerics");
}
FailureKind kind_of(int exit_code);

// dtrain-failure {...}
struct FailureRecord {
  int rank = 0;      // that reports the failure
  std::string host;  // where it runs
  // The rank that failed: `rank` itself, or another one that it misses. None: it misses others for
  // a reason that it does not know.
  std::optional<int> culprit;
  FailureKind kind = FailureKind::kInternal;
  int exit_code = 0;
  std::string text;  // first line of the message for people, as printed

  bool is_own() const { return culprit == rank; }
  bool operator==(const FailureRecord&) const = default;
};

// dtrain-run {...}: rank 0 holds this run.
struct HeldRun {
  std::string folder;
  bool operator==(const HeldRun&) const = default;
};

// Without a line feed. Texts are cut to 2000 bytes.
std::string json_of(const FailureRecord&);
std::string line_of(const FailureRecord&);
std::string line_of(const HeldRun&);

struct SupervisorLine {
  std::string_view before;  // printed by others before the line began
  std::variant<FailureRecord, HeldRun> record;
};
// None: `line` is for people. So is one that is damaged.
std::optional<SupervisorLine> parse_supervisor_line(std::string_view line);

}  // namespace dtrain::dist
