#pragma once

// What the threads of a rank did, and when, recorded for `dtrain trace`. Each thread that is
// observed has a track and adds an event when something has ended. The parts of a run hold a
// pointer to their track, which is null unless the run is traced: then recording costs them one
// test of a pointer. A track takes no lock, and between start() and stop() it allocates nothing.
//
// Thread-safety: one thread at a time adds to a track, and one starts, stops and reads; what else
// there is may be called from any thread. Ownership: the recorder owns its tracks and outlives who
// uses them.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace dtrain::trace {

// Nanoseconds of the machine's own clock (std::chrono::steady_clock).
using Time = int64_t;
inline Time time_of(std::chrono::steady_clock::time_point point) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(point.time_since_epoch()).count();
}
inline Time now() { return time_of(std::chrono::steady_clock::now()); }

// What an event tells; a, b and c are its numbers.
enum class Kind : int32_t {
  kPhase,      // a phase of a step, on the training thread or on the device
  kStep,       // an optimizer step begins (it has no duration): a = its number, from 1
  kStage,      // a stage of one sample on a loader thread: a = optimizer step, b = micro-step,
               // c = sample
  kReady,      // all gradients of a bucket are there (no duration): a = bucket
  kSent,       // a bucket goes to the communicator (no duration): a = bucket, b = bytes
  kOperation,  // an operation of a communicator: a = bytes
  kOperator,   // an operator of LibTorch: a = sequence number of its backward; -1: it has none
  kBackward,   // an operator of the backward pass: a = sequence number of its forward on the
               // training thread, or -1
  kKernel,     // a kernel or a copy on a GPU
  kCounter,    // a value from now on (no duration): a
  kCount
};

struct Event {
  const char* name;  // lives as long as the recorder: a literal, or interned
  Time begin, end;
  Kind kind;
  int64_t a = 0, b = 0, c = 0;
  const char* detail = nullptr;  // kOperator, kBackward: the module, if known; lives likewise
};

class Track {
 public:
  Track(std::string name, int place) : name_(std::move(name)), place_(place) {}

  // Whether add() keeps or counts anything now: for who would have to read the clock for it.
  bool on() const { return buffer_.load(std::memory_order_acquire) != nullptr; }

  // Beyond the capacity of start() an event is counted, not kept.
  void add(const Event& event) {
    Buffer* buffer = buffer_.load(std::memory_order_acquire);
    if (buffer == nullptr) return;
    const size_t added = buffer->added.load(std::memory_order_relaxed);
    if (added < buffer->capacity) buffer->events[added] = event;
    buffer->added.store(added + 1, std::memory_order_release);
  }

  const std::string& name() const { return name_; }

 private:
  friend class Recorder;
  struct Buffer {
    explicit Buffer(size_t size)
        : events(size > 0 ? std::make_unique<Event[]>(size) : nullptr), capacity(size) {}
    std::unique_ptr<Event[]> events;
    size_t capacity;
    std::atomic<size_t> added = 0;
  };

  const std::string name_;
  const int place_;
  std::atomic<Buffer*> buffer_ = nullptr;  // null: off
  // All of them: a thread may still be adding to an earlier one
  std::deque<std::unique_ptr<Buffer>> buffers_;
};

// The events of one track, in the order of their ends.
struct TrackEvents {
  std::string name;
  int place = 0;
  std::vector<Event> events = {};
  size_t left_out = 0;  // that found no room
};

class Recorder {
 public:
  Recorder() = default;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // A new track. Tracks of one name are one thread to a reader; threads are shown by `place`.
  Track* track(std::string name, int place);
  // A text that lives as long as the recorder. The same text gives the same pointer.
  const char* intern(const std::string& text);

  // From now on all tracks record, each with room for `times` as many events as it has counted
  // since the last start(), and for `spare` more. start(0, 0) counts only.
  void start(double times, size_t spare);
  void stop();

  Time began() const { return began_; }     // the last start()
  Time ended() const { return ended_; }     // the last stop()
  size_t counted() const;                   // events since the last start(), of all tracks
  std::vector<TrackEvents> events() const;  // that were kept since the last start()

 private:
  mutable std::mutex mutex_;
  std::deque<Track> tracks_;  // a deque, so that pointers stay valid
  std::unordered_set<std::string> texts_;
  Time began_ = 0, ended_ = 0;
};

// Where threads are shown.
inline constexpr int kTrainingPlace = 0, kDevicePlace = 1, kOperatorPlace = 2, kLoaderPlace = 10,
                     kCommPlace = 1000;
inline constexpr const char* kTrainingThread = "training";
// Events of the reducer, shown with its communicator's
inline constexpr const char* kBuckets = "buckets";
inline constexpr const char* kCounters = "counters";  // values, not a thread

}  // namespace dtrain::trace
