#include "trace/chrome_trace.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <unordered_map>

#include "text/number_text.h"
#include "text/strings.h"
#include "trace/timeline.h"

namespace dtrain::trace {
namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/true,
                                   nlohmann::json::error_handler_t::replace);
}

// Microseconds with three decimals: exact.
std::string micros(Time nanoseconds) {
  char text[40];
  const Time absolute = nanoseconds < 0 ? -nanoseconds : nanoseconds;
  std::snprintf(text, sizeof text, "%s%" PRId64 ".%03d", nanoseconds < 0 ? "-" : "",
                absolute / 1000, static_cast<int>(absolute % 1000));
  return text;
}

// Writes the lines of one rank.
class RankLines {
 public:
  RankLines(const RankTrace& trace, Time origin, bool first,
            const std::function<void(std::string_view)>& write, size_t piece_bytes)
      : trace_(trace), origin_(origin), write_(write), piece_bytes_(piece_bytes), first_(first) {}

  void write() {
    name_threads();
    for (const auto& [name, thread] : threads_) write_thread(name, thread);
    write_counters();
    write_buckets();
    write_flows();
    if (!piece_.empty()) write_(piece_);
  }

 private:
  struct Thread {
    int number = 0, place = 0;
    std::vector<Event> events = {};
  };

  void name_threads() {
    line(str(R"("ph":"M","name":"process_name","args":{"name":)", quoted(trace_.name), "}"), 0);
    line(str(R"("ph":"M","name":"process_sort_index","args":{"sort_index":)", trace_.rank, "}"), 0);
    std::vector<const TrackEvents*> tracks;
    for (const TrackEvents& track : trace_.tracks) {
      tracks.push_back(&track);
      std::vector<Event>& events = threads_[track.name].events;
      std::ranges::copy_if(track.events, std::back_inserter(events), [&](const Event& e) {
        return e.begin >= trace_.began && e.end <= trace_.ended;
      });
    }
    std::ranges::stable_sort(
        tracks, [](const TrackEvents* a, const TrackEvents* b) { return a->place < b->place; });
    for (const TrackEvents* track : tracks) {
      Thread& thread = threads_[track->name];
      const bool is_thread =
          track->name != kBuckets && track->name != kCounters && !thread.events.empty();
      if (thread.number > 0 || !is_thread) continue;
      thread.number = ++last_thread_;
      thread.place = track->place;
      line(str(R"("ph":"M","name":"thread_name","args":{"name":)", quoted(track->name), "}"),
           thread.number);
      line(str(R"("ph":"M","name":"thread_sort_index","args":{"sort_index":)", thread.place, "}"),
           thread.number);
    }
  }

  void write_thread(const std::string& name, const Thread& thread) {
    if (thread.number == 0 || name == trace_.bucket_track) return;
    const bool loads = thread.place >= kLoaderPlace && thread.place < kCommPlace;
    for (const Slice& slice : name == kTrainingThread ? training_slices(thread.events)
                              : loads                 ? loader_slices(thread.events)
                                                      : plain_slices(thread.events)) {
      complete(slice.name, slice.category, slice.begin, slice.end, thread.number, args_of(slice));
    }
  }

  static std::string args_of(const Slice& slice) {
    const Event& e = slice.event;
    const std::string_view category = slice.category;
    if (category == "step") return str(R"("step":)", e.a);
    if (category == "micro-step") return str(R"("step":)", e.a, R"(,"micro_step":)", e.b);
    if (category == "batch")
      return str(R"("step":)", e.a, R"(,"micro_step":)", e.b, R"(,"samples":)", e.c);
    switch (e.kind) {
      case Kind::kPhase:
        return e.a > 0 ? str(R"("step":)", e.a) : "";
      case Kind::kStage:
        return str(R"("step":)", e.a, R"(,"micro_step":)", e.b, R"(,"sample":)", e.c);
      case Kind::kOperation:
        return str(R"("bytes":)", e.a);
      case Kind::kOperator:
      case Kind::kBackward:
        return str(R"("sequence":)", e.a, e.detail ? str(R"(,"module":)", quoted(e.detail)) : "");
      default:
        return "";
    }
  }

  void write_counters() {
    const auto counters = threads_.find(kCounters);
    if (counters == threads_.end()) return;
    for (const Event& event : counters->second.events) {
      line(str(R"("ph":"C","name":)", name_of(event.name), R"(,"ts":)", at(event.begin),
               R"(,"args":{"value":)", event.a, "}"),
           0);
    }
  }

  // Of each bucket: a row from ready to done, a bar on the communicator's thread, and an arrow from
  // where it was sent.
  void write_buckets() {
    const auto reducer = threads_.find(kBuckets);
    if (reducer == threads_.end()) return;
    const auto communicator = threads_.find(trace_.bucket_track);
    const std::vector<Event> none;
    const bool carried = communicator != threads_.end();
    const Thread& training = threads_[kTrainingThread];
    const std::vector<BucketTimes> buckets = buckets_of(
        reducer->second.events, carried ? communicator->second.events : none, training.events);
    const bool known =
        std::ranges::any_of(buckets, [](const BucketTimes& b) { return b.ended > 0; });
    if (carried && !known) {  // show what was carried as it is
      for (const Slice& slice : plain_slices(communicator->second.events)) {
        complete(slice.name, slice.category, slice.begin, slice.end, communicator->second.number,
                 args_of(slice));
      }
    }
    for (const BucketTimes& b : buckets) {
      const std::string name = str("bucket ", b.bucket);
      const std::string args =
          str(R"("bucket":)", b.bucket, R"(,"step":)", b.step, R"(,"bytes":)", b.bytes);
      const Time from = b.ready > 0 ? b.ready : b.sent, to = b.ended > 0 ? b.ended : b.sent;
      async("b", name, from, b.bucket, args);
      async("n", "sent", b.sent, b.bucket, "");
      async("e", name, to, b.bucket, "");
      if (b.ended == 0) continue;
      complete(name, "communication", b.began, b.ended, communicator->second.number,
               str(args, R"(,"waited_us":)", micros(b.began - b.sent)));
      flow("bucket", "sent", b.sent, training.number, b.began, communicator->second.number);
    }
  }

  void write_flows() {
    const Thread& training = threads_[kTrainingThread];
    std::vector<std::span<const Event>> tracks;
    std::vector<int> numbers;
    for (const auto& [name, thread] : threads_) {
      tracks.emplace_back(thread.events);
      numbers.push_back(thread.number);
    }
    for (const FlowEnds& ends : operator_flows(training.events, tracks)) {
      flow("backward", "backward", ends.forward.begin, training.number, ends.backward.begin,
           numbers[ends.track]);
    }
  }

  void complete(const std::string& name, const char* category, Time begin, Time end, int thread,
                const std::string& args) {
    // Both ends are rounded in the same way, so that a slice does not outlast the one that it
    // is in.
    line(str(R"("ph":"X","cat":")", category, R"(","name":)", quoted(name), R"(,"ts":)", at(begin),
             R"(,"dur":)", micros(common(end) - common(begin)), R"(,"args":{)", args, "}"),
         thread);
  }

  void async(const char* phase, const std::string& name, Time time, int64_t bucket,
             const std::string& args) {
    line(str(R"("ph":")", phase, R"(","cat":"bucket","name":)", quoted(name),
             R"(,"id2":{"local":"0x)", hex(static_cast<uint64_t>(bucket + 1)), R"("},"ts":)",
             at(time), R"(,"args":{)", args, "}"),
         threads_[kTrainingThread].number);
  }

  void flow(const char* category, const char* name, Time from, int from_thread, Time to,
            int to_thread) {
    const std::string id =
        str("0x", hex((static_cast<uint64_t>(trace_.rank) << 32) + ++last_flow_));
    const std::string common =
        str(R"("cat":")", category, R"(","name":")", name, R"(","id":")", id, R"(","ts":)");
    line(str(R"("ph":"s",)", common, at(from)), from_thread);
    line(str(R"("ph":"f","bp":"e",)", common, at(to)), to_thread);
  }

  const std::string& name_of(const char* name) {
    std::string& known = names_[name];
    if (known.empty()) known = quoted(name);
    return known;
  }

  Time common(Time own) const { return trace_.clock.common(own) - origin_; }
  std::string at(Time own) const { return micros(common(own)); }

  void line(const std::string& fields, int thread) {
    piece_ += first_ ? "" : ",\n";
    first_ = false;
    piece_ += str("{", fields, R"(,"pid":)", trace_.rank, R"(,"tid":)", thread, "}");
    if (piece_.size() < piece_bytes_) return;
    write_(piece_);
    piece_.clear();
  }

  const RankTrace& trace_;
  const Time origin_;
  const std::function<void(std::string_view)>& write_;
  const size_t piece_bytes_;
  bool first_;
  std::string piece_;
  std::map<std::string, Thread> threads_;
  std::unordered_map<const char*, std::string> names_;
  int last_thread_ = 0;
  uint64_t last_flow_ = 0;
};

}  // namespace

std::string trace_header(const Facts& facts) {
  std::string text = R"({"displayTimeUnit":"ms","otherData":{)";
  for (size_t i = 0; i < facts.size(); ++i) {
    text += str(i == 0 ? "" : ",", quoted(facts[i].first), ":", quoted(facts[i].second));
  }
  return text + "},\"traceEvents\":[\n";
}

std::string trace_footer() { return "\n]}\n"; }

void write_rank(const RankTrace& trace, Time origin, bool first,
                const std::function<void(std::string_view)>& write, size_t piece_bytes) {
  RankLines(trace, origin, first, write, piece_bytes).write();
}

}  // namespace dtrain::trace
