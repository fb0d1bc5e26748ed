#pragma once

// A hash table of numbers that stand for things which are stored elsewhere: 5 to 11 bytes for each,
// where a map of the things would need 50 to 100. Thread-safety: const methods may be called from
// any thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace dtrain::convert {

class IndexTable {
 public:
  // The entry of the thing with this hash for which `is_it(entry)` holds.
  template <typename IsIt>
  std::optional<uint32_t> find(uint64_t hash, const IsIt& is_it) const {
    if (slots_.empty()) return std::nullopt;
    for (size_t at = hash & mask(); slots_[at] != kFree; at = (at + 1) & mask()) {
      if (is_it(slots_[at])) return slots_[at];
    }
    return std::nullopt;
  }

  // `hash_of(entry)`: the hash of the thing that an entry stands for. Requires: no entry stands for
  // the same thing yet.
  template <typename HashOf>
  void insert(uint32_t entry, const HashOf& hash_of) {
    if (3 * slots_.size() <= 4 * (count_ + 1)) grow(hash_of);
    place(entry, hash_of(entry));
    ++count_;
  }

 private:
  static constexpr uint32_t kFree = 0xffffffff;
  size_t mask() const { return slots_.size() - 1; }

  void place(uint32_t entry, uint64_t hash) {
    size_t at = hash & mask();
    while (slots_[at] != kFree) at = (at + 1) & mask();
    slots_[at] = entry;
  }

  template <typename HashOf>
  void grow(const HashOf& hash_of) {
    constexpr size_t kLeast = 16;
    const std::vector<uint32_t> old = std::exchange(slots_, {});
    slots_.assign(old.empty() ? kLeast : 2 * old.size(), kFree);
    for (const uint32_t entry : old) {
      if (entry != kFree) place(entry, hash_of(entry));
    }
  }

  std::vector<uint32_t> slots_;  // their number is a power of two
  size_t count_ = 0;
};

}  // namespace dtrain::convert
