#include "diagnose/causes.h"

#include "text/strings.h"

namespace dtrain::diagnose {

using enum measure::Quantity;

const std::array<CauseRow, kCauses>& cause_rows() {
  static const std::array<CauseRow, kCauses> kRows = [] {
    std::array<CauseRow, kCauses> rows = {
#define DTRAIN_CAUSE(name, ...) CauseRow{__VA_ARGS__},
#include "diagnose/causes.def"
#undef DTRAIN_CAUSE
    };
    for (size_t i = 1; i < rows.size(); ++i) {
      if (rows[i].found_by.empty()) rows[i].needs = rows[i - 1].needs;
    }
    return rows;
  }();
  return kRows;
}

const CauseRow& row_of(Cause cause) { return cause_rows()[static_cast<size_t>(cause)]; }

std::string cause_table() {
  std::string text =
      "| cause | it is found by | its gain is that of | what to do |\n|---|---|---|---|\n";
  const auto& rows = cause_rows();
  for (size_t i = 0; i < rows.size();) {
    const CauseRow& first = rows[i];
    std::string names = str("`", first.name, "`");
    for (++i; i < rows.size() && rows[i].found_by.empty(); ++i)
      names += str(", `", rows[i].name, "`");
    text += str("| ", names, " | ", first.found_by, " | ", first.gain, " | ", first.remedy, " |\n");
  }
  return text;
}

}  // namespace dtrain::diagnose
