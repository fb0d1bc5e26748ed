#include "convert/sample_list.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>

#include "core/check.h"
#include "core/hash.h"
#include "core/random.h"
#include "text/strings.h"

namespace dtrain::convert {
namespace {

void check_count(size_t count) {
  constexpr size_t kMost = std::numeric_limits<uint32_t>::max();
  if (count >= kMost)
    throw DataError(str(count, " samples are more than one file can hold, ", kMost - 1));
}

}  // namespace

std::string_view Texts::operator[](size_t i) const {
  const size_t first = i - i % kStride;
  const Place start = starts_[i / kStride];
  const size_t begin =
      std::accumulate(lengths_.begin() + static_cast<std::ptrdiff_t>(first),
                      lengths_.begin() + static_cast<std::ptrdiff_t>(i), size_t{start.begin});
  return std::string_view(pieces_[start.piece]).substr(begin, lengths_[i]);
}

void Texts::push_back(std::string_view text) {
  constexpr size_t kPieceBytes = size_t{1} << 20;
  if (text.size() > std::numeric_limits<uint16_t>::max()) {
    throw DataError(str("a name of ", text.size(), " bytes: ", text.substr(0, 100), "..."));
  }
  if (size() % kStride == 0) {
    if (pieces_.empty() || pieces_.back().size() >= kPieceBytes) pieces_.emplace_back();
    starts_.push_back(
        {static_cast<uint32_t>(pieces_.size() - 1), static_cast<uint32_t>(pieces_.back().size())});
  }
  pieces_.back() += text;
  lengths_.push_back(static_cast<uint16_t>(text.size()));
}

SampleList SampleList::elements_of(const std::string& file, size_t count) {
  check_count(count);
  SampleList list;
  list.size_ = count;
  list.are_elements_ = true;
  list.file_ = file;
  return list;
}

void SampleList::push_back(const RawSample& sample) {
  DTRAIN_CHECK(!are_elements_ && order_.empty());
  check_count(size_ + 1);
  const std::optional<Split> split = value_named<Split>(sample.split);
  DTRAIN_CHECK(split && sample.label >= -1 && sample.label <= std::numeric_limits<int32_t>::max(),
               sample.split, ' ', sample.label);
  if (own_groups_ && sample.group != sample.name) {
    for (size_t i = 0; i < size_; ++i) group_.push_back(number_of_group(name(i)));
    own_groups_ = false;
  }
  if (!own_groups_) group_.push_back(number_of_group(sample.group));
  if (labels_.empty() && sample.label >= 0) labels_.assign(size_, -1);
  if (!labels_.empty() || sample.label >= 0) labels_.push_back(static_cast<int32_t>(sample.label));
  if (splits_.empty() && *split != Split::kNone) splits_.assign(size_, Split::kNone);
  if (!splits_.empty() || *split != Split::kNone) splits_.push_back(*split);
  names_.push_back(sample.name);
  ++size_;
}

uint32_t SampleList::number_of_group(const std::string& name) {
  const auto is_it = [&](uint32_t group) { return group_names_[group] == name; };
  if (const auto found = known_groups_.find(xxh64(name), is_it)) return *found;
  const auto fresh = static_cast<uint32_t>(group_count_++);
  group_names_.push_back(name);
  known_groups_.insert(fresh, [&](uint32_t group) { return xxh64(group_names_[group]); });
  return fresh;
}

void SampleList::sort_by_name() {
  DTRAIN_CHECK(!are_elements_ && order_.empty());
  known_groups_ = {};  // nothing is added after this
  order_.resize(size_);
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::sort(order_, [&](uint32_t a, uint32_t b) { return names_[a] < names_[b]; });
  const auto sort = [&]<typename Value>(std::vector<Value>& values) {
    if (values.empty()) return;
    const std::vector<Value> old = values;
    for (size_t i = 0; i < size_; ++i) values[i] = old[order_[i]];
  };
  sort(group_);
  sort(labels_);
  sort(splits_);
}

void SampleList::set_groups(const std::function<int64_t(size_t)>& number) {
  const auto hash = [](int64_t value) { return mix64(static_cast<uint64_t>(value)); };
  IndexTable known;
  own_groups_ = false;
  group_.reserve(size_);
  for (size_t i = 0; i < size_; ++i) {
    const int64_t value = number(i);
    std::optional<uint32_t> found =
        known.find(hash(value), [&](uint32_t group) { return group_numbers_[group] == value; });
    if (!found) {
      found = static_cast<uint32_t>(group_numbers_.size());
      group_numbers_.push_back(value);
      known.insert(*found, [&](uint32_t group) { return hash(group_numbers_[group]); });
    }
    group_.push_back(*found);
  }
  group_count_ = group_numbers_.size();
}

std::string SampleList::name(size_t i) const {
  if (are_elements_) return file_ + '#' + std::to_string(i);
  return std::string(names_[order_.empty() ? i : order_[i]]);
}

std::string SampleList::group_name(uint32_t group) const {
  if (own_groups_) return name(group);
  return group_numbers_.empty() ? std::string(group_names_[group])
                                : "group " + std::to_string(group_numbers_[group]);
}

RawSample SampleList::operator[](size_t i) const {
  return {.name = name(i),
          .group = group_name(group(i)),
          .label = label(i),
          .split = std::string(name_of(split(i)))};
}

std::optional<uint32_t> SampleList::element_named(std::string_view name) const {
  DTRAIN_CHECK(are_elements_);
  if (name.size() <= file_.size() || !name.starts_with(file_)) return std::nullopt;
  uint32_t element = 0;
  static_cast<void>(
      std::from_chars(name.data() + file_.size() + 1, name.data() + name.size(), element));
  if (element < size_ && this->name(element) == name) return element;
  return std::nullopt;
}

}  // namespace dtrain::convert
