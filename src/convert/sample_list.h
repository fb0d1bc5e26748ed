#pragma once

// The samples of a raw set: their names, groups, classes and splits. A set may have 50 million of
// them, so they are kept in arrays: at most 16 bytes for each, and the bytes of names of files. A
// group with a number takes 8, one with a name 2.5 and the bytes of its name.
//
// Errors: DataError (2^32 samples or more, a name of 64 KiB or more). Thread-safety: all const
// methods may be called from any thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convert/index_table.h"
#include "text/named_enum.h"

namespace dtrain::convert {

enum class Split : uint8_t { kNone, kTrain, kVal, kTest };
constexpr auto names_of(Split) { return names("", "train", "val", "test"); }

struct RawSample {
  std::string name;     // where it comes from: file relative to the folder, or FILE.npz#index
  std::string group;    // source photo or person: its samples must not be in different splits
  int64_t label = -1;   // its class, or -1; splits are stratified by class
  std::string split{};  // "train", "val" or "test" if the data set assigns it, otherwise ""
};

// Short texts one after the other: 2.5 bytes for each, besides its own.
class Texts {
 public:
  size_t size() const { return lengths_.size(); }
  std::string_view operator[](size_t i) const;
  void push_back(std::string_view text);

 private:
  static constexpr size_t kStride = 16;
  struct Place {
    uint32_t piece = 0, begin = 0;
  };
  std::vector<std::string> pieces_;  // a few MiB each: a single string would be copied as it grows
  std::vector<uint16_t> lengths_;
  std::vector<Place> starts_;  // place of every 16th text
};

class SampleList {
 public:
  SampleList() = default;
  // The elements of one file: named FILE#0, FILE#1, ..., each in a group of its own.
  static SampleList elements_of(const std::string& file, size_t count);
  void push_back(const RawSample&);  // not of elements, and not after sort_by_name()
  void sort_by_name();               // not of elements

  // One for each sample.
  void set_labels(std::vector<int32_t> labels) { labels_ = std::move(labels); }
  void set_splits(std::vector<Split> splits) { splits_ = std::move(splits); }
  // Samples with the same number are one group, named "group NUMBER".
  void set_groups(const std::function<int64_t(size_t)>& number);

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  RawSample operator[](size_t) const;
  std::string name(size_t) const;
  int64_t label(size_t i) const { return labels_.empty() ? -1 : labels_[i]; }
  Split split(size_t i) const { return splits_.empty() ? Split::kNone : splits_[i]; }
  bool has_labels() const { return !labels_.empty(); }
  bool has_splits() const { return !splits_.empty(); }
  // Groups have numbers from 0. Without groups of several samples, each has the number of
  // its sample.
  size_t groups() const { return own_groups_ ? size_ : group_count_; }
  uint32_t group(size_t i) const { return own_groups_ ? static_cast<uint32_t>(i) : group_[i]; }
  std::string group_name(uint32_t group) const;
  bool own_groups() const { return own_groups_; }
  bool are_elements() const { return are_elements_; }
  std::optional<uint32_t> element_named(std::string_view name) const;  // Requires: are_elements()

 private:
  uint32_t number_of_group(const std::string& name);

  size_t size_ = 0;
  bool are_elements_ = false, own_groups_ = true;
  std::string file_;             // file that holds the samples, if they are elements
  Texts names_;                  // names of samples that are not elements
  std::vector<uint32_t> order_;  // sorted order, as indices in names_; empty: not sorted
  std::vector<uint32_t> group_;
  size_t group_count_ = 0;
  Texts group_names_;
  std::vector<int64_t> group_numbers_;  // instead of names
  std::vector<int32_t> labels_;
  std::vector<Split> splits_;
  IndexTable known_groups_;
};

}  // namespace dtrain::convert
