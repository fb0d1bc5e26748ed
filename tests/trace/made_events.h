#pragma once

// Events by hand, for tests of what is made of them. Times are in microseconds.

#include "trace/recorder.h"

namespace dtrain::trace {

constexpr Time us(double microseconds) { return static_cast<Time>(microseconds * 1000); }

inline Event phase(const char* name, double begin, double end) {
  return {.name = name, .begin = us(begin), .end = us(end), .kind = Kind::kPhase};
}
inline Event step(int64_t number, double begin) {
  return {.name = "step", .begin = us(begin), .end = us(begin), .kind = Kind::kStep, .a = number};
}
inline Event stage(const char* name, double begin, double end, int64_t step, int64_t micro,
                   int64_t sample) {
  return {.name = name,
          .begin = us(begin),
          .end = us(end),
          .kind = Kind::kStage,
          .a = step,
          .b = micro,
          .c = sample};
}
inline Event ready(int64_t bucket, double time) {
  return {.name = "ready", .begin = us(time), .end = us(time), .kind = Kind::kReady, .a = bucket};
}
inline Event sent(int64_t bucket, double time, int64_t bytes) {
  return {.name = "sent",
          .begin = us(time),
          .end = us(time),
          .kind = Kind::kSent,
          .a = bucket,
          .b = bytes};
}
inline Event operation(double begin, double end, int64_t bytes) {
  return {.name = "all_reduce",
          .begin = us(begin),
          .end = us(end),
          .kind = Kind::kOperation,
          .a = bytes};
}
inline Event operator_event(const char* name, double begin, double end, int64_t sequence,
                            const char* module = nullptr) {
  return {.name = name,
          .begin = us(begin),
          .end = us(end),
          .kind = Kind::kOperator,
          .a = sequence,
          .detail = module};
}
inline Event backward_event(const char* name, double begin, double end, int64_t sequence) {
  return {.name = name, .begin = us(begin), .end = us(end), .kind = Kind::kBackward, .a = sequence};
}

// Two steps of two micro-steps each, from 100 to 180 and from 180 to 260, as PhaseTrace
// records them.
inline std::vector<Event> two_steps() {
  std::vector<Event> events = {phase("other", 90, 100)};
  for (const int64_t number : {7, 8}) {
    const double at = number == 7 ? 100 : 180;
    events.push_back(step(number, at));
    events.push_back(phase("data_wait", at, at + 5));
    events.push_back(phase("forward", at + 5, at + 15));
    events.push_back(phase("backward", at + 15, at + 30));
    events.push_back(phase("data_wait", at + 30, at + 31));
    events.push_back(phase("forward", at + 31, at + 41));
    events.push_back(phase("backward", at + 41, at + 60));
    events.push_back(phase("allreduce_wait", at + 60, at + 70));
    events.push_back(phase("optimizer", at + 70, at + 78));
    events.push_back(phase("other", at + 78, at + 80));
  }
  return events;
}

}  // namespace dtrain::trace
