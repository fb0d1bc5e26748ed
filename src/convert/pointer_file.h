#pragma once

// An .npz file of sets with a known order, for the task `pointer`. Its arrays have one of two forms:
//   padded    features [N, L, 7 or 8], order [N, L] (padded with -1), and optionally lengths [N]. By default a set ends
//             where its `order` has the first -1; without `order`, all sets have L elements.
//   ragged    values [R, 7 or 8], offsets [N + 1], order [R]. Set i is rows offsets[i] to offsets[i + 1].
// Both may have split [N]: 0 train, 1 val, 2 test. The 8th feature is is_visited; it is 0 if there are only 7.
// order[i][k] is the element that is visited k-th.
//
// Errors: DataError. The constructor throws for problems of the whole file, and the methods for those of one set.
// Thread-safety: all const methods may be called from any thread.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "formats/npz.h"

namespace dtrain::convert {

inline constexpr int64_t kPointerFeatures = 8;

class PointerFile {
 public:
  // Without `with_order`, `order` may be missing, and is used only if the lengths are not known otherwise.
  PointerFile(const std::filesystem::path& file, bool with_order);

  int64_t sets() const { return static_cast<int64_t>(first_row_.size()); }
  // Throws if the set is empty or longer than the array, or if a feature is NaN or infinite.
  std::vector<float> features(int64_t set) const;  // n × kPointerFeatures
  std::vector<int64_t> order(int64_t set) const;   // throws if it is not a permutation of 0 to n - 1
  int64_t length(int64_t set) const;               // 0 if the file's value is impossible
  std::string split(int64_t set) const;            // "train", "val", "test", or "" if the file has no splits
  uint64_t checksum() const;                       // of all arrays used, without the splits

 private:
  void read_padded(const formats::NpzFile&, const formats::NpyArray& features);
  void read_ragged(const formats::NpzFile&, const formats::NpyArray& values);
  void read_order(const formats::NpzFile&, bool padded);
  void check_length(int64_t set) const;

  std::vector<float> values_;  // rows × width_
  std::vector<int64_t> first_row_, length_, room_, order_, first_order_, order_room_;
  std::vector<std::string> split_;
  int64_t width_ = 0;
};

}  // namespace dtrain::convert
