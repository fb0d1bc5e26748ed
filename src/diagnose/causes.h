#pragma once

// The table of the causes that can hold a run back (causes.def). Constant; plain values.

#include <array>
#include <compare>
#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "measure/quantity.h"

namespace dtrain::diagnose {

enum class Cause : size_t {
#define DTRAIN_CAUSE(name, ...) name,
#include "diagnose/causes.def"
#undef DTRAIN_CAUSE
  kCount
};
inline constexpr size_t kCauses = static_cast<size_t>(Cause::kCount);

// What a cause reads of a run beside its steps and settings: a measured value, or what has no row
// among these. A verdict names in this order what is missing.
enum class NeedKind {
  kGpuClock,
  kGpuSensors,
  kNetworkCost,
  kValue,
  kEvaluations,
  kCheckpoints,
  kFewReaders,
};
struct Need {
  Need(NeedKind only) : kind(only) {}
  Need(measure::Quantity value) : kind(NeedKind::kValue), quantity(value) {}
  auto operator<=>(const Need&) const = default;

  NeedKind kind;
  measure::Quantity quantity = measure::Quantity::kCount;
};

struct CauseRow {
  std::string_view name;      // used in metrics.jsonl and in metrics
  std::string_view headline;  // first words of the verdict
  // The same lost time may have several names: a rank is late because its GPU is hot. The deeper
  // one is what to change.
  int depth = 1;
  // Where the threads of this job have no cores: ranks that are late, messages that are slow, and
  // what else crowds the cores. Nothing says how much of it is for this reason, so no gain of
  // theirs can be promised.
  bool comes_of_crowding = false;
  // More threads of this job than cores, where it has no gain: it comes first, and what comes of it
  // is not named.
  bool crowds = false;
  // What it reads. A verdict says what of it was not measured, where that has a name.
  std::vector<Need> needs = {};
  // For docs/diagnosis.md.
  std::string_view found_by = {}, gain = {}, remedy = {};
};

const std::array<CauseRow, kCauses>& cause_rows();
const CauseRow& row_of(Cause);
inline std::string_view name_of(Cause cause) { return row_of(cause).name; }

std::string cause_table();  // that of docs/diagnosis.md, in Markdown

inline std::ostream& operator<<(std::ostream& out, Cause cause) { return out << name_of(cause); }

}  // namespace dtrain::diagnose
