#pragma once

// Arrays of an .npz file that hold one whole number per sample, as the layouts `pointer` and
// `arrays` have them. Errors: DataError with the array's name, without the file's.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convert/sample_list.h"
#include "formats/npz_array.h"

namespace dtrain::convert {

// A whole number for each sample, read from the file when it is asked for.
class NpzColumn {
 public:
  // An array of one dimension, of `count` elements unless that is -1; nullopt if the file has no
  // such array.
  static std::optional<NpzColumn> open(const std::filesystem::path& file, const std::string& name,
                                       int64_t count);

  int64_t size() const { return array_->header().shape[0]; }
  int64_t operator[](size_t i) const {
    return array_->to_int64(static_cast<int64_t>(i), 1).front();
  }
  uint64_t checksum() const { return array_->checksum(); }
  void for_each(const std::function<void(int64_t)>& visit) const;  // visits all values in order

 private:
  NpzColumn(std::shared_ptr<const formats::NpzArray> array, std::string name)
      : array_(std::move(array)), name_(std::move(name)) {}
  std::shared_ptr<const formats::NpzArray> array_;
  std::string name_;
};

// Calls `visit` with the elements of the array `name` in order; reads them in pieces.
void for_each_int64(const formats::NpzArray&, const std::string& name,
                    const std::function<void(int64_t)>& visit);

// The splits by sample, from the array `split`: 0 train, 1 val, 2 test. Empty if the file has no
// such array.
std::vector<Split> splits_in(const std::filesystem::path& file, int64_t samples);

}  // namespace dtrain::convert
