#pragma once

// A text file that lists samples, one a line, as people and their tools write it (--train-list and
// the like). What has one meaning only is accepted: a byte order mark and UTF-16; line ends of any
// system; comments after '#'; `./`, '\' for '/', and a folder before all names that the samples are
// not in; the number of the class after each name, which is the list of Caffe. A name of a sample
// is always that sample, whatever characters it has.
//
// Errors: DataError, with the list and the line.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace dtrain::convert {

// Which sample has this name.
inline constexpr size_t kNoSample = static_cast<size_t>(-1), kTwoSamples = static_cast<size_t>(-2);
using FindSample = std::function<size_t(const std::string& name)>;

struct ListedSample {
  size_t sample = kNoSample;
  std::string name;              // spelled as in the list
  std::string place;             // "train.txt:3"
  std::optional<int64_t> label;  // the number after the name
};

// Calls `use` for each line that names a sample, in the order of the lines.
void read_name_list(const std::filesystem::path& file, const FindSample&,
                    const std::function<void(const ListedSample&)>& use);

// The text without its byte order mark; "\n" ends lines
std::string utf8_of_list(std::span<const std::byte> bytes);

// Whether the numbers in lists mean the classes that the samples have from elsewhere.
class ListedLabels {
 public:
  // `label`: the sample's class, as in RawSample. DataError if it has none, or if another sample
  // contradicts it.
  void check(const ListedSample&, int64_t label);

 private:
  struct Pair {
    int64_t number, label;
    std::string name, place;
  };
  std::map<int64_t, Pair> by_number_, by_label_;  // the first of each
};

}  // namespace dtrain::convert
