#include "trace/recorder.h"

#include <algorithm>
#include <utility>

namespace dtrain::trace {

Track* Recorder::track(std::string name, int place) {
  const std::lock_guard lock(mutex_);
  return &tracks_.emplace_back(std::move(name), place);
}

const char* Recorder::intern(const std::string& text) {
  const std::lock_guard lock(mutex_);
  return texts_.insert(text).first->c_str();
}

void Recorder::start(double times, size_t spare) {
  const std::lock_guard lock(mutex_);
  for (Track& track : tracks_) {
    const size_t counted =
        track.buffers_.empty() ? 0 : track.buffers_.back()->added.load(std::memory_order_acquire);
    const auto room = static_cast<size_t>(times * static_cast<double>(counted)) + spare;
    track.buffer_.store(track.buffers_.emplace_back(std::make_unique<Track::Buffer>(room)).get(),
                        std::memory_order_release);
  }
  began_ = now();
}

void Recorder::stop() {
  const std::lock_guard lock(mutex_);
  ended_ = now();
  for (Track& track : tracks_) track.buffer_.store(nullptr, std::memory_order_release);
}

size_t Recorder::counted() const {
  const std::lock_guard lock(mutex_);
  size_t sum = 0;
  for (const Track& track : tracks_) {
    if (!track.buffers_.empty())
      sum += track.buffers_.back()->added.load(std::memory_order_acquire);
  }
  return sum;
}

std::vector<TrackEvents> Recorder::events() const {
  const std::lock_guard lock(mutex_);
  std::vector<TrackEvents> all;
  for (const Track& track : tracks_) {
    TrackEvents& one = all.emplace_back(TrackEvents{.name = track.name_, .place = track.place_});
    if (track.buffers_.empty()) continue;
    const Track::Buffer& buffer = *track.buffers_.back();
    const size_t added = buffer.added.load(std::memory_order_acquire),
                 kept = std::min(added, buffer.capacity);
    one.events.assign(buffer.events.get(), buffer.events.get() + kept);
    one.left_out = added - kept;
  }
  return all;
}

}  // namespace dtrain::trace
