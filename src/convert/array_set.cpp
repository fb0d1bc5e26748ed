// Samples from the arrays of one .npz file, for the user's network (task `module`) and for other
// tasks with catalog::TaskEntry::from_arrays:
//   inputs       images: uint8 [N, H, W, 3], or gray [N, H, W] or [N, H, W, 1], which are stored as
//                RGB; or rows: [N, F] or [N, T, F] of any other type, stored as float32. [N] counts
//                as [N, 1]
//   targets      numbers: floats [N] or [N, K]; or classes: integers or bool [N] or [N, K]. [N, 1]
//                counts as [N]
//   lengths      optional, [N], of rows [N, T, F]: sample i is its first lengths[i] rows
//   split        optional, [N]: 0 train, 1 val, 2 test
//   group        optional, [N]: samples with the same number are never in different splits
//   class_names  optional, [C] strings, of classes [N]

#include <algorithm>
#include <cmath>
#include <set>

#include "convert/npz_columns.h"
#include "convert/raw_set.h"
#include "convert/stored_sample.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/log.h"
#include "formats/npz.h"
#include "formats/npz_array.h"
#include "text/printable.h"
#include "text/strings.h"
#include "text/unicode.h"

namespace dtrain::convert {
namespace {

namespace fs = std::filesystem;
using formats::NpyHeader;
using formats::NpzArray;

constexpr const char* kExpected =
    "Expected: inputs uint8 [N, H, W, 3] (images), or numbers [N, F] or [N, T, F] (rows); targets "
    "[N] or [N, K]; if wanted lengths [N], split [N], group [N], class_names [C]";
const std::set<std::string> kKnown{"inputs", "targets", "lengths", "split", "group", "class_names"};
constexpr int64_t kRgb = 3;

std::unique_ptr<const NpzArray> required(const fs::path& file, const std::string& name) {
  std::unique_ptr<const NpzArray> array = NpzArray::open(file, name);
  if (!array) {
    throw DataError(
        str("it has no array ", name, "; ", formats::NpzFile(file).contents(), ". ", kExpected));
  }
  return array;
}

[[noreturn]] void refuse(const NpzArray& array, const char* name, const std::string& what) {
  throw DataError(str("its array ", name, " is ", array.header().type(), " ",
                      array.header().shape_text(), "; ", what));
}

class ArraySet : public RawSet {
 public:
  ArraySet(const catalog::TaskEntry& task, const fs::path& path,
           const std::vector<std::string>& classes)
      : RawSet(task) {
    schema_.task = task.name;
    read_inputs(path);
    read_targets(path);
    if (task.sample == catalog::SampleKind::kPicture && !task.network_from_file() && !images()) {
      refuse(*inputs_, "inputs",
             str("task ", task.name, " needs images, uint8 [N, H, W, 3]. For rows: --task module"));
    }
    if (task.target == catalog::Target::kNumbers && schema_.target != target_of(task)) {
      const size_t numbers = task.numbers.names.size();
      refuse(*targets_, "targets",
             str("task ", task.name, " needs floats [N, ", numbers,
                 "]: ", join(task.numbers.names, ", ")));
    }
    samples_ = SampleList::elements_of(path.filename().string(), static_cast<size_t>(count()));
    read_classes(path, classes);
    samples_.set_splits(splits_in(path, count()));
    if (const auto groups = NpzColumn::open(path, "group", count())) {
      samples_.set_groups([&](size_t i) { return (*groups)[i]; });
    }
    const formats::NpzFile archive(path);
    for (const std::string& name : archive.names()) {
      if (!kKnown.contains(name))
        log::info(printable(str("ignored in ", path.string(), ": its array ", name)));
    }
  }

  const SampleList& samples() const override { return samples_; }
  bool samples_are_files() const override { return false; }
  data::Schema schema() const override { return schema_; }
  std::vector<std::string> classes() const override { return classes_; }

  int64_t expected_bytes() const override {
    int64_t rows = lengths_ ? 0 : count();
    if (lengths_)
      lengths_->for_each(
          [&](int64_t length) { rows += std::clamp<int64_t>(length, 0, most_rows_); });
    return rows * schema_.input.row_bytes() + count() * schema_.target.row_bytes();
  }

  std::string content_key() const override {
    const uint64_t sums[] = {inputs_->checksum(), targets_->checksum(),
                             lengths_ ? lengths_->checksum() : 0, labels_key_};
    return std::to_string(xxh64(std::as_bytes(std::span(sums))));
  }

  Record read(size_t sample) const override {
    return {.input = input(sample), .target = target(sample)};
  }

 private:
  bool images() const { return schema_.input.element == data::Element::kUint8; }
  int64_t count() const { return inputs_->header().shape[0]; }

  void read_inputs(const fs::path& file) {
    inputs_ = required(file, "inputs");
    const std::vector<int64_t>& shape = inputs_->header().shape;
    const bool bytes = inputs_->header().type() == "uint8";
    if (shape.size() == 4 || (bytes && shape.size() == 3)) {
      channels_ = shape.size() == 4 ? shape[3] : 1;
      if (!bytes || (channels_ != 1 && channels_ != kRgb)) {
        refuse(*inputs_, "inputs",
               "images must be uint8 [N, H, W, 3], or gray, [N, H, W] or [N, H, W, 1]. From values "
               "of 0 to 1: "
               "(255 * x).round().astype('uint8'); from [N, 3, H, W]: x.transpose(0, 2, 3, 1)");
      }
      schema_.input = {data::Element::kUint8, {shape[1], shape[2], kRgb}};
    } else if (shape.size() >= 1 && shape.size() <= 3) {
      schema_.input = {data::Element::kFloat32, {shape.begin() + 1, shape.end()}};
      if (shape.size() == 1) schema_.input.shape = {1};
    } else {
      refuse(*inputs_, "inputs", kExpected);
    }
    if (count() == 0 || !data::storable_input(schema_.input))
      refuse(*inputs_, "inputs", "it holds no values");
    lengths_ = NpzColumn::open(file, "lengths", count());
    if (lengths_) {
      if (images() || shape.size() != 3) {
        refuse(*inputs_, "inputs",
               str("lengths are of rows [N, T, F]",
                   images() ? ", and this is images: for rows, inputs.astype('float32')" : ""));
      }
      most_rows_ = shape[1];
      schema_.input.shape[0] = data::kVariable;
    }
  }

  void read_targets(const fs::path& file) {
    targets_ = required(file, "targets");
    const std::vector<int64_t>& shape = targets_->header().shape;
    if ((shape.size() != 1 && shape.size() != 2) || shape[0] != count() || shape.back() == 0) {
      refuse(*targets_, "targets",
             str("expected [", count(), "] or [", count(), ", K], one per sample of inputs"));
    }
    const bool numbers = targets_->header().kind == NpyHeader::Kind::kFloat;
    schema_.target = {numbers ? data::Element::kFloat32 : data::Element::kInt64, {}};
    if (shape.size() == 2 && shape[1] > 1) schema_.target.shape = {shape[1]};
  }

  // `given`: all classes; those of the file are some of them, and are numbered like them.
  void read_classes(const fs::path& file, const std::vector<std::string>& given) {
    std::optional<std::vector<std::string>> names = formats::NpzFile(file).read_text("class_names");
    if (!names && given.empty() && task_.target != catalog::Target::kClass)
      return divide_by_value();
    if (schema_.target != data::Field{data::Element::kInt64, {}}) {
      refuse(*targets_, "targets", "classes are integers [N], from 0: targets.astype('int64')");
    }
    const Range range = range_of_targets();
    const auto says = [](const Place& at) { return str("targets[", at.sample, "] is ", at.value); };
    if (range.lowest.value < 0) {
      throw DataError(str(says(range.lowest),
                          "; classes are counted from 0, and no target is ignored: leave out ",
                          "samples without a class"));
    }
    const bool named = names.has_value();
    if (!named && !given.empty()) names = given;
    if (!names) {
      if (range.highest.value >= count())
        throw DataError(
            str(says(range.highest), ", but there are ", count(), " samples: is it a class?"));
      names.emplace();
      for (int64_t label = 0; label <= range.highest.value; ++label)
        names->push_back(std::to_string(label));
    }
    check_names(*names, given.empty() ? 2 : 1);
    const auto classes = static_cast<int64_t>(names->size());
    if (range.highest.value >= classes) {
      throw DataError(str(says(range.highest), ", but ",
                          named ? "class_names has " : "--classes gives ", classes,
                          " names, of the classes 0 to ", classes - 1));
    }
    classes_ = std::move(*names);
    std::vector<int32_t> labels = this->labels();
    if (!given.empty()) number_like(given, labels);
    labels_key_ = xxh64(std::as_bytes(std::span(labels)));
    samples_.set_labels(std::move(labels));
  }

  // Whole numbers are classes, with or without names: the splits hold some of each.
  void divide_by_value() {
    if (schema_.target != data::Field{data::Element::kInt64, {}}) return;
    const Range range = range_of_targets();
    if (range.lowest.value >= 0 && range.highest.value < count()) samples_.set_labels(labels());
  }

  std::vector<int32_t> labels() const {
    std::vector<int32_t> labels;
    labels.reserve(samples_.size());
    for_each_int64(*targets_, "targets",
                   [&](int64_t label) { labels.push_back(static_cast<int32_t>(label)); });
    return labels;
  }

  // The first sample with the lowest target, and the first with the highest.
  struct Place {
    int64_t sample = 0, value = 0;
  };
  struct Range {
    Place lowest, highest;
  };
  Range range_of_targets() const {
    std::optional<Range> range;
    int64_t sample = 0;
    for_each_int64(*targets_, "targets", [&](int64_t value) {
      const Place here{sample++, value};
      if (!range) range = Range{here, here};
      if (value < range->lowest.value) range->lowest = here;
      if (value > range->highest.value) range->highest = here;
    });
    return range.value_or(Range{});
  }

  void number_like(const std::vector<std::string>& given, std::vector<int32_t>& labels) {
    std::vector<int32_t> number;  // index in `given` of each class of the file
    for (const std::string& name : classes_) {
      const size_t found = find_name(name, given);
      if (found == given.size()) {
        throw DataError(str("class_names holds ", printable(name),
                            ", which is none of the classes that --classes gives: ",
                            printable(join(given, ", ") + look_alike_among(name, given))));
      }
      number.push_back(static_cast<int32_t>(found));
    }
    for (int32_t& label : labels) label = number[static_cast<size_t>(label)];
    classes_ = given;
  }

  static void check_names(const std::vector<std::string>& names, size_t fewest) {
    if (names.size() < fewest) {
      throw DataError(str("classes need ", fewest == 1 ? "a name" : "two names or more",
                          ", and there are ", names.size()));
    }
    std::set<std::string> seen;
    for (const std::string& name : names) {
      if (name.empty()) throw DataError("class_names holds an empty name");
      if (name.find_first_of(std::string_view("\n\0", 2)) != std::string::npos) {
        throw DataError(
            str("class_names holds a line break or a NUL in ", "'", printable(name), "'"));
      }
      if (!seen.insert(nfc(name)).second)
        throw DataError(str("class_names holds ", "'", printable(name), "'", " twice"));
    }
  }

  std::vector<std::byte> input(size_t sample) const {
    const int64_t elements = inputs_->header().elements() / count(),
                  first = static_cast<int64_t>(sample) * elements;
    if (images()) {
      const std::vector<uint8_t> pixels = inputs_->to_uint8(first, elements);
      if (channels_ == kRgb) return bytes_of(pixels);
      std::vector<uint8_t> rgb;
      for (const uint8_t gray : pixels) rgb.insert(rgb.end(), kRgb, gray);
      return bytes_of(rgb);
    }
    int64_t values = elements;
    if (lengths_) {
      const int64_t rows = (*lengths_)[sample];
      if (rows < 1 || rows > most_rows_) {
        throw DataError(
            str("its length is ", rows, "; the array has room for 1 to ", most_rows_, " rows"));
      }
      values = rows * schema_.input.row_elements();
    }
    const std::vector<float> rows = inputs_->to_float32(first, values);
    check_finite(rows, schema_.input.shape.back());
    return bytes_of(rows);
  }

  std::vector<std::byte> target(size_t sample) const {
    const int64_t elements = schema_.target.row_elements(),
                  first = static_cast<int64_t>(sample) * elements;
    if (!classes_.empty()) return class_target(samples_.label(sample));
    if (schema_.target.element == data::Element::kInt64)
      return bytes_of(targets_->to_int64(first, elements));
    const std::vector<float> values = targets_->to_float32(first, elements);
    const auto bad = std::find_if_not(values.begin(), values.end(),
                                      [](float value) { return std::isfinite(value); });
    if (bad != values.end()) {
      throw DataError(str("its target ", bad - values.begin(), " is ",
                          std::isnan(*bad) ? "NaN" : "infinite (or beyond float32)"));
    }
    return bytes_of(values);
  }

  std::unique_ptr<const NpzArray> inputs_, targets_;
  int64_t channels_ = 0;   // images only
  int64_t most_rows_ = 1;  // with lengths
  std::optional<NpzColumn> lengths_;
  uint64_t labels_key_ = 0;  // hash of the labels
  std::vector<std::string> classes_;
  SampleList samples_;
  data::Schema schema_;
};

}  // namespace

std::unique_ptr<RawSet> open_arrays(const catalog::TaskEntry& task, const fs::path& file,
                                    const std::vector<std::string>& classes) {
  try {
    return std::make_unique<ArraySet>(task, file, classes);
  } catch (const DataError& error) {
    throw DataError(str(file.string(), ": ", error.what()));
  }
}

}  // namespace dtrain::convert
