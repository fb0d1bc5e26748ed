#pragma once

// Sets with an order to be found, in one .npz file. Arrays, in one of two forms:
//   padded    features [N, L, 7 or 8], order [N, L] (padded with -1), lengths [N] (may be absent: as many elements as
//             `order` has entries before its first -1; without `order`, all L)
//   ragged    values [R, 7 or 8], offsets [N + 1] (set i: rows offsets[i] to offsets[i + 1]), order [R]
// and in both, if wanted, split [N]: 0 train, 1 val, 2 test. The 8th feature is is_visited; it is added as 0 where
// there are 7. order[i][k]: the element that is visited k-th. Errors: DataError. What is wrong with the file as a whole
// is thrown when it is opened; what is wrong with one set when that set is asked for. Thread-safety: all const methods
// may be called from any thread.

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
  // `with_order`: `order` must be there; otherwise it is looked at only where it alone says how long the sets are.
  PointerFile(const std::filesystem::path& file, bool with_order);

  int64_t sets() const { return static_cast<int64_t>(first_row_.size()); }
  // Throws: no elements, more than there is room for, NaN or infinity in a feature.
  std::vector<float> features(int64_t set) const;  // n × kPointerFeatures
  std::vector<int64_t> order(int64_t set) const;   // throws: not a permutation of 0 to n - 1
  int64_t length(int64_t set) const;               // 0 where what the file says cannot be
  std::string split(int64_t set) const;            // "train", "val", "test", or "" where the file does not say
  uint64_t checksum() const;                       // of all arrays that are used

 private:
  void read_padded(const formats::NpzFile&, const formats::NpyArray& features);
  void read_ragged(const formats::NpzFile&, const formats::NpyArray& values);
  void read_order(const formats::NpzFile&, bool padded);
  void read_splits(const formats::NpzFile&);
  void check_length(int64_t set) const;

  std::vector<float> values_;  // rows × width_
  std::vector<int64_t> first_row_, length_, room_, order_, first_order_, order_room_, split_;
  int64_t width_ = 0;
};

}  // namespace dtrain::convert
