#pragma once

// A cause that holds a run back, and what a run would gain without it. Values, made by causes.h
// from measurements and chosen by verdict.h.

#include <array>
#include <cstddef>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/what_if.h"
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

// `otherwise` of a setting that makes the global batch larger.
inline constexpr const char* kLargerGlobalBatch =
    "(a larger global batch, which may need another learning rate)";

inline constexpr double kLeastGain = 0.03;  // what is less is not worth a change

struct Finding {
  Cause cause{};
  int rank = -1;              // -1: all ranks alike
  std::string evidence = "";  // "8.1 of 13.0 ms waiting for data"
  // absent: none can be computed. judge() sets it where `without` is given
  std::optional<Gain> gain = {};
  // That brings the gain: "--data.workers 8"; "": `otherwise` says what does
  std::string setting = "";
  std::string otherwise =
      "";  // "without the other processes of this host", or more about the setting
  std::optional<WhatIf> without = {};  // the steps as they would have been
};

}  // namespace dtrain::diagnose
