#pragma once

// The history of a run in bounded memory: a list that, when it is full, drops every second entry
// and from then on keeps only every second, fourth, eighth ... value. A reader that asks for what
// is new since its last visit receives each entry once, until a drop makes it start again. Pure
// values. Thread-safety: none.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace dtrain::monitoring {

template <typename Value>
class ThinnedHistory {
 public:
  struct Entry {
    int64_t number;  // given to add(); grows
    Value value;
  };

  // Requires: limit >= 2.
  explicit ThinnedHistory(size_t limit) : limit_(limit) { entries_.reserve(limit); }

  void add(int64_t number, Value value) {
    if (added_++ % stride_ != 0) return;
    if (entries_.size() == limit_) {
      thin();
      dropped_at_ = number;
      if ((added_ - 1) % stride_ != 0) return;
    }
    entries_.push_back({number, std::move(value)});
  }

  // Whether a reader that has all entries up to `number` still has the same ones: false after
  // entries were dropped.
  bool continues(int64_t number) const { return number >= dropped_at_; }

  // The entries whose numbers are greater than `number`.
  std::vector<Value> since(int64_t number) const {
    std::vector<Value> values;
    for (const Entry& entry : entries_) {
      if (entry.number > number) values.push_back(entry.value);
    }
    return values;
  }

  size_t size() const { return entries_.size(); }

 private:
  void thin() {
    size_t kept = 0;
    for (size_t i = 0; i < entries_.size(); i += 2) {
      if (kept != i) entries_[kept] = std::move(entries_[i]);
      ++kept;
    }
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(kept), entries_.end());
    stride_ *= 2;
  }

  size_t limit_;
  int64_t stride_ = 1, added_ = 0;
  int64_t dropped_at_ = 0;  // the number that was added when entries were dropped last
  std::vector<Entry> entries_;
};

}  // namespace dtrain::monitoring
