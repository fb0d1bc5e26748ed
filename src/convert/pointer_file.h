#pragma once

// An .npz file of sets with a known order, for the task `pointer`. Its arrays have one of
// two forms:
//   padded    features [N, L, 7 or 8], order [N, L] (padded with -1), and optionally lengths [N].
//             By default a set ends where its `order` has the first -1; without `order`, all sets
//             have L elements.
//   ragged    values [R, 7 or 8], offsets [N + 1], order [R]. Set i is rows offsets[i] to offsets[i
//             + 1].
// Both may have split [N]: 0 train, 1 val, 2 test. The 8th feature is is_visited; it is 0 if there
// are only 7. order[i][k] is the element that is visited k-th.
//
// Errors: DataError. The constructor throws for problems of the whole file, and the methods for
// those of one set. Thread-safety: all const methods may be called from any thread.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "convert/npz_columns.h"
#include "convert/sample_list.h"
#include "formats/npz_array.h"

namespace dtrain::convert {

inline constexpr int64_t kPointerFeatures = 8;

class PointerFile {
 public:
  // Without `with_order`, `order` may be missing, and is used only if the lengths are not
  // known otherwise.
  PointerFile(const std::filesystem::path& file, bool with_order);

  int64_t sets() const { return sets_; }
  // Throws if the set is empty or longer than the array, or if a feature is NaN or infinite.
  std::vector<float> features(int64_t set) const;  // n × kPointerFeatures
  std::vector<int64_t> order(int64_t set) const;  // throws if it is not a permutation of 0 to n - 1
  int64_t length(int64_t set) const;              // 0 if the file's value is impossible
  // Empty if the file has no splits
  std::vector<Split> take_splits() { return std::move(splits_); }
  uint64_t checksum() const;  // covers all arrays used, but not the splits

 private:
  void read_padded(const std::filesystem::path&);
  void read_ragged(const std::filesystem::path&);
  void read_order(const std::filesystem::path&);
  int64_t first_row(int64_t set) const;
  int64_t room(int64_t set) const;           // rows that the array has for the set
  int64_t stated_length(int64_t set) const;  // length in the file, which may be impossible
  void check_length(int64_t set) const;

  std::unique_ptr<const formats::NpzArray> values_, order_;
  std::optional<NpzColumn> offsets_, lengths_;  // offsets: of ragged files
  std::vector<Split> splits_;
  int64_t sets_ = 0, width_ = 0;
  int64_t padded_room_ = 0, padded_order_room_ = 0;
};

}  // namespace dtrain::convert
