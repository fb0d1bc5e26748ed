#include "trace/timeline.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>

#include "text/strings.h"

namespace dtrain::trace {
namespace {

constexpr std::string_view kFirstPhase = "data_wait", kCopy = "h2d", kForward = "forward",
                           kBackward = "backward";
constexpr std::string_view kWait = "allreduce_wait";

// By Kind
constexpr const char* kCategories[] = {"phase",  "step",          "loader",   "bucket",
                                       "bucket", "communication", "operator", "backward operator",
                                       "kernel", "counter"};
static_assert(std::size(kCategories) == static_cast<size_t>(Kind::kCount));

bool lasts(Kind kind) {
  return kind == Kind::kPhase || kind == Kind::kStage || kind == Kind::kOperation ||
         kind == Kind::kOperator || kind == Kind::kBackward || kind == Kind::kKernel;
}

std::vector<Event> of_kind(std::span<const Event> events, Kind kind) {
  std::vector<Event> some;
  std::copy_if(events.begin(), events.end(), std::back_inserter(some),
               [&](const Event& e) { return e.kind == kind; });
  return some;
}

Slice slice_of(const Event& event) {
  return {kCategories[static_cast<size_t>(event.kind)], event.name, event.begin, event.end, event};
}

// Each ends where the next one begins, the last one with the last phase.
std::vector<Slice> steps_of(const std::vector<Event>& marks, Time end) {
  std::vector<Slice> steps;
  for (size_t i = 0; i < marks.size(); ++i) {
    const Time until = i + 1 < marks.size() ? marks[i + 1].begin : end;
    if (until <= marks[i].begin) continue;
    steps.push_back({"step", str("step ", marks[i].a), marks[i].begin, until, marks[i]});
  }
  return steps;
}

// Those of one step, whose phases these are, in order.
void add_micro_steps(std::span<const Event> phases, const Slice& step, std::vector<Slice>& slices) {
  int64_t micro = 0;
  const Event* first = nullptr;
  // For other ranks: after the last micro-step, or in the middle of any of them, for batch
  // norm's sums.
  std::optional<Time> waits_since;
  const auto close = [&](Time end) {
    if (first == nullptr) return;
    slices.push_back({"micro-step",
                      str("micro-step ", micro),
                      first->begin,
                      end,
                      {.name = "",
                       .begin = first->begin,
                       .end = end,
                       .kind = Kind::kStep,
                       .a = step.event.a,
                       .b = micro}});
    ++micro;
    first = nullptr;
  };
  for (const Event& phase : phases) {
    const std::string_view name = phase.name;
    if (name == kWait) {
      if (!waits_since) waits_since = phase.begin;
    } else if (name == kForward || name == kBackward) {
      waits_since.reset();
    } else if (name != kCopy) {
      close(waits_since.value_or(phase.begin));
      waits_since.reset();
    }
    if (name == kFirstPhase) first = &phase;
  }
  if (waits_since) close(*waits_since);
}

}  // namespace

void nest(std::vector<Slice>& slices) {
  std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::vector<Time> open;  // the ends of the slices that the current one is in
  for (Slice& slice : slices) {
    while (!open.empty() && open.back() <= slice.begin) open.pop_back();
    if (!open.empty()) slice.end = std::min(slice.end, open.back());
    open.push_back(slice.end);
  }
}

std::vector<Slice> training_slices(std::span<const Event> events) {
  const std::vector<Event> marks = of_kind(events, Kind::kStep);
  std::vector<Event> phases = of_kind(events, Kind::kPhase);
  if (marks.empty() || phases.empty()) return {};
  const Time from = marks.front().begin, until = phases.back().end;
  const std::vector<Slice> steps = steps_of(marks, until);
  std::vector<Slice> slices = steps;
  auto next = phases.begin();  // steps and phases are both in order
  for (const Slice& step : steps) {
    next = std::find_if(next, phases.end(),
                        [&](const Event& phase) { return phase.begin >= step.begin; });
    const auto first = next;
    for (; next != phases.end() && next->begin < step.end; ++next) next->a = step.event.a;
    add_micro_steps({first, next}, step, slices);
    std::transform(first, next, std::back_inserter(slices), slice_of);
  }
  for (const Event& event : events) {
    const bool is_operator = event.kind == Kind::kOperator || event.kind == Kind::kBackward;
    if (is_operator && event.begin >= from && event.begin < until)
      slices.push_back(slice_of(event));
  }
  nest(slices);
  return slices;
}

std::vector<Slice> loader_slices(std::span<const Event> events) {
  std::vector<Slice> slices;
  size_t batch = 0;  // its slice, once there is one
  int64_t sample = -1;
  for (const Event& event : events) {
    if (event.kind != Kind::kStage) continue;
    if (sample < 0 || slices[batch].event.a != event.a || slices[batch].event.b != event.b) {
      batch = slices.size();
      sample = -1;
      slices.push_back(
          {"batch", str("batch ", event.a, ".", event.b), event.begin, event.end, event});
      slices[batch].event.c = 0;
    }
    slices[batch].end = std::max(slices[batch].end, event.end);
    if (event.c != sample) ++slices[batch].event.c;
    sample = event.c;
    slices.push_back(slice_of(event));
  }
  nest(slices);
  return slices;
}

std::vector<Slice> plain_slices(std::span<const Event> events) {
  std::vector<Slice> slices;
  for (const Event& event : events) {
    if (lasts(event.kind)) slices.push_back(slice_of(event));
  }
  nest(slices);
  return slices;
}

namespace {

// The operation of each bucket: one after the other, and behind the last bucket of a step the sums
// of loss and weight. Empty if other operations were carried.
std::vector<size_t> operations_of(const std::vector<BucketTimes>& buckets,
                                  const std::vector<Event>& carried) {
  constexpr int64_t kSumsBytes = 16;
  std::vector<size_t> own;
  size_t next = 0;
  for (size_t i = 0; i < buckets.size(); ++i) {
    if (next == carried.size() || carried[next].a != buckets[i].bytes) return {};
    own.push_back(next++);
    const bool last_of_step = i + 1 == buckets.size() || buckets[i + 1].bucket <= buckets[i].bucket;
    if (last_of_step && next < carried.size() && carried[next].a == kSumsBytes) ++next;
  }
  return next == carried.size() ? own : std::vector<size_t>();
}

}  // namespace

std::vector<BucketTimes> buckets_of(std::span<const Event> reducer,
                                    std::span<const Event> operations,
                                    std::span<const Event> steps) {
  std::vector<BucketTimes> buckets;
  std::map<int64_t, Time> ready;  // bucket -> when it was ready; only buckets not sent yet
  const std::vector<Event> marks = of_kind(steps, Kind::kStep);
  for (const Event& event : reducer) {
    if (event.kind == Kind::kReady) ready[event.a] = event.begin;
    if (event.kind != Kind::kSent) continue;
    const auto after =
        std::upper_bound(marks.begin(), marks.end(), event.begin,
                         [](Time time, const Event& mark) { return time < mark.begin; });
    const auto was_ready = ready.find(event.a);
    buckets.push_back({.bucket = event.a,
                       .bytes = event.b,
                       .step = after == marks.begin() ? 0 : std::prev(after)->a,
                       .ready = was_ready == ready.end() ? 0 : was_ready->second,
                       .sent = event.begin});
    if (was_ready != ready.end()) ready.erase(was_ready);
  }
  const std::vector<Event> carried = of_kind(operations, Kind::kOperation);
  const std::vector<size_t> own = operations_of(buckets, carried);
  for (size_t i = 0; i < own.size(); ++i) {
    buckets[i].began = carried[own[i]].begin;
    buckets[i].ended = carried[own[i]].end;
  }
  return buckets;
}

std::vector<FlowEnds> operator_flows(std::span<const Event> forward,
                                     std::span<const std::span<const Event>> all) {
  std::map<int64_t, const Event*> by_sequence;  // the last operator to begin with each number
  for (const Event& event : forward) {
    if (event.kind != Kind::kOperator || event.a < 0) continue;
    const Event*& known = by_sequence[event.a];
    if (known == nullptr || known->begin < event.begin) known = &event;
  }
  std::vector<FlowEnds> flows;
  for (size_t track = 0; track < all.size(); ++track) {
    for (const Event& event : all[track]) {
      if (event.kind != Kind::kBackward) continue;
      const auto known = by_sequence.find(event.a);
      if (known == by_sequence.end() || known->second->end > event.begin) continue;
      flows.push_back({*known->second, event, track});
    }
  }
  return flows;
}

}  // namespace dtrain::trace
