#pragma once

// A run on one screen of a terminal: what it is, how far it came, how fast, where the time went,
// what to change. Thread-safety: pure functions.

#include <string>

#include "report/digest.h"
#include "report/run_records.h"

namespace dtrain::report {

inline constexpr size_t kCardColumns = 80, kCardLines = 24;

// At most kCardLines lines of at most kCardColumns characters; names of others are shown as
// text/printable.h shows them. `now`: seconds since 1970.
std::string card(const RunRecords&, const Digest&, double now);

// "mae 2.6810 at step 357", "" without a best value.
std::string best_text(const RunRecords&);
// "headpose, headpose_cnn, 1 701 667 parameters, fp32 (auto)", as far as it is known.
std::string task_text(const RunRecords&);
// "data/300wlp.h5: 3 240 training, 360 validation, 400 test samples".
std::string data_text(const RunRecords&);
// "2 on vm (CPU), global batch 64, mpi".
std::string ranks_text(const RunRecords&);
// "epoch 7.2 of 8, step 367 of 408".
std::string progress_text(const RunRecords&, const Digest&);
// "312.3 samples/s, 205.0 ms per step (the median of 41 windows)".
std::string speed_text(const Digest&);
// A number with three or four significant digits, as tables and plots show it.
std::string short_number(double value);

}  // namespace dtrain::report
