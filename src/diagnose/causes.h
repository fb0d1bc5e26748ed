#pragma once

// The table of the causes that can hold a run back (causes.def). Constant; plain values.

#include <array>
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
  std::vector<measure::Quantity> needs = {};  // a verdict says which of them were not measured
  // For docs/diagnosis.md.
  std::string_view found_by = {}, gain = {}, remedy = {};
};

const std::array<CauseRow, kCauses>& cause_rows();
const CauseRow& row_of(Cause);
inline std::string_view name_of(Cause cause) { return row_of(cause).name; }

std::string cause_table();  // that of docs/diagnosis.md, in Markdown

inline std::ostream& operator<<(std::ostream& out, Cause cause) { return out << name_of(cause); }

}  // namespace dtrain::diagnose
