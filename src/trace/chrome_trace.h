#pragma once

// The events of all ranks as a Chrome trace: the JSON of the "Trace Event Format", which
// ui.perfetto.dev and chrome://tracing open. A rank is a process, a thread a thread; times are in
// microseconds since `origin`. The file is trace_header(), the lines of each rank, and
// trace_footer(). Pure: what is written goes to a function.

#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/recorder.h"

namespace dtrain::trace {

// The time of one machine's clock on that of rank 0's machine. Clocks run at slightly different
// speeds, so the offset is measured before and after, and what lies between is interpolated.
struct ClockMap {
  Time before = 0, after = 0;                  // when the offsets were measured, on the own clock
  double offset_before = 0, offset_after = 0;  // seconds that the own clock is ahead

  Time common(Time own) const {
    const double share =
        after > before ? static_cast<double>(own - before) / static_cast<double>(after - before)
                       : 0.0;
    const double offset = offset_before + (offset_after - offset_before) * share;
    return own - static_cast<Time>(std::llround(offset * 1e9));
  }
};

struct RankTrace {
  int rank = 0;
  std::string name;           // the process in the trace: "rank 1: node7, cpu"
  Time began = 0, ended = 0;  // recording, on the rank's own clock; what began earlier is left out
  ClockMap clock = {};
  std::vector<TrackEvents> tracks = {};
  // The name of the track of the communicator that carries buckets alone; "": none
  std::string bucket_track = {};
};

using Facts = std::vector<std::pair<std::string, std::string>>;  // about the run, by name

std::string trace_header(const Facts&);
std::string trace_footer();

// Calls `write` with pieces of text of about `piece_bytes` or less, each of whole lines. `first`:
// this rank's lines follow the header, not another rank's.
void write_rank(const RankTrace&, Time origin, bool first,
                const std::function<void(std::string_view)>& write,
                size_t piece_bytes = size_t{1} << 20);

// What a line takes, for an estimate before anything is recorded.
inline constexpr double kBytesPerEvent = 170;

}  // namespace dtrain::trace
