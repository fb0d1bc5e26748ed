#pragma once

// A store without a file: pixels and targets are functions of the sample id. It can fail at a
// sample, block readers at a gate, and return corrupt bytes.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "data/hdf5/layout.h"
#include "data/store.h"
#include "support/made_origin.h"
#include "text/strings.h"

namespace dtrain::testing {

class MemoryStore : public data::Store, public MadeOrigin {
 public:
  MemoryStore(int64_t samples, int64_t height, int64_t width)
      : MadeOrigin("memory.h5", "sample_", ".png") {
    schema_.task = "test";
    schema_.input = {data::Element::kUint8, {height, width, 3}};
    schema_.target = {data::Element::kFloat32, {3}};
    schema_.samples = samples;
    bytes_ = static_cast<size_t>(height * width * 3);
  }

  std::optional<int64_t> fails_at;   // with a DataError, like a real store
  std::optional<int64_t> throws_at;  // with an exception of another type
  std::optional<int64_t> rotten;     // its bytes do not match its checksum
  mutable std::atomic<int64_t> reads = 0;
  data::Schema& schema_to_change() { return schema_; }

  void close_gate() {
    std::scoped_lock lock(mutex_);
    open_ = false;
  }
  void open_gate() {
    {
      std::scoped_lock lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  void wait_for_reads_at_gate(int count) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return at_gate_ >= count; });
  }

  std::byte pixel(int64_t id, size_t i) const {
    return static_cast<std::byte>(keyed(uint64_t(id), i) >> 56);
  }
  // Targets are classes, int64 {}, instead of float32 {3}.
  void use_classes() { schema_.target = {data::Element::kInt64, {}}; }
  static int64_t class_of(int64_t id) { return id % 5; }
  static float target(int64_t id, size_t i) {
    return static_cast<float>(id) + 0.25f * static_cast<float>(i + 1);
  }

  const data::Schema& schema() const override { return schema_; }
  const data::Origin& origin() const override { return *this; }
  void read_input(int64_t id, std::span<std::byte> out) const override {
    {
      std::unique_lock lock(mutex_);
      ++at_gate_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return open_; });
      --at_gate_;
    }
    ++reads;
    if (fails_at == id) throw DataError(str(name(id), ": the test wants this"));
    if (throws_at == id) throw std::runtime_error("not an error of dtrain");
    for (size_t i = 0; i < bytes_; ++i) out[i] = pixel(id, i);
    if (rotten == id) out[bytes_ / 2] ^= std::byte{1};
  }
  int64_t input_rows(int64_t) const override { return 1; }
  int64_t target_rows(int64_t) const override { return 1; }
  void read_target(int64_t id, std::span<std::byte> out) const override {
    if (schema_.target.element == data::Element::kInt64) {
      const int64_t number = class_of(id);
      std::memcpy(out.data(), &number, sizeof(number));
      return;
    }
    for (size_t i = 0; i < out.size() / sizeof(float); ++i) {
      const float value = target(id, i);
      std::memcpy(out.data() + i * sizeof(float), &value, sizeof(float));
    }
  }
  uint64_t checksum(int64_t id) const override {
    std::vector<std::byte> input(bytes_);
    for (size_t i = 0; i < bytes_; ++i) input[i] = pixel(id, i);
    std::vector<std::byte> targets(static_cast<size_t>(target_bytes(id)));
    read_target(id, targets);
    return data::sample_checksum(input, targets);
  }
  void verify(const ReportProgress&) const override {}

 private:
  data::Schema schema_;
  size_t bytes_ = 0;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int at_gate_ = 0;
  bool open_ = true;
};

}  // namespace dtrain::testing
