#include "data/hdf5/file_store.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>

#include "text/number_text.h"
#include "text/printable.h"
#include "text/strings.h"

namespace dtrain::data {
namespace {

std::string line(std::string_view label, const std::string& value) {
  std::string text(label);
  text.resize(12, ' ');
  return text + printable(value) + "\n";
}

constexpr size_t kClassesShown = 40;

std::string lengths_line(const Store& store, int64_t (Store::*rows)(int64_t) const) {
  std::vector<int64_t> lengths;
  int64_t sum = 0;
  for (int64_t id = 0; id < store.schema().samples; ++id) {
    lengths.push_back((store.*rows)(id));
    sum += lengths.back();
  }
  std::sort(lengths.begin(), lengths.end());
  return line("", str("lengths: ", lengths.front(), " to ", lengths.back(), ", median ",
                      lengths[lengths.size() / 2], ", ", human_count(sum), " rows in all"));
}

// For float32 targets, and int64 targets that are not classes.
template <typename T>
std::string range_lines(const Store& store) {
  const auto elements = static_cast<size_t>(store.schema().target.row_elements());
  std::vector<double> low(elements, std::numeric_limits<double>::infinity()),
      high(elements, -low[0]), sum(elements, 0);
  std::vector<int64_t> numbers(elements, 0);
  for (int64_t id = 0; id < store.schema().samples; ++id) {
    const std::vector<T> target = read_target_as<T>(store, id);
    for (size_t i = 0; i < elements; ++i) {
      const double value = static_cast<double>(target[i]) + 0.0;  // adding 0 prints -0.0 as 0.000
      if (value != value) continue;
      ++numbers[i];
      low[i] = std::min(low[i], value);
      high[i] = std::max(high[i], value);
      sum[i] += value;
    }
  }
  std::string text;
  int64_t not_a_number = 0;
  for (size_t i = 0; i < elements; ++i) {
    not_a_number += store.schema().samples - numbers[i];
    const std::string range = numbers[i] == 0
                                  ? "no numbers"
                                  : str(fixed(low[i], 3), " to ", fixed(high[i], 3), ", mean ",
                                        fixed(sum[i] / static_cast<double>(numbers[i]), 3));
    text += line("", str("element ", i, ": ", range));
  }
  if (not_a_number > 0) text += line("", str(human_count(not_a_number), " values are NaN"));
  return text;
}

std::string class_lines(const Store& store, const std::vector<std::string>& names) {
  std::vector<int64_t> counts(names.size());
  int64_t outside = 0;
  for (int64_t id = 0; id < store.schema().samples; ++id) {
    for (const int64_t value : read_target_as<int64_t>(store, id)) {
      if (value >= 0 && value < static_cast<int64_t>(names.size())) {
        ++counts[static_cast<size_t>(value)];
      } else {
        ++outside;
      }
    }
  }
  std::string text;
  if (names.size() <= kClassesShown) {
    for (size_t i = 0; i < names.size(); ++i) {
      text += line("", str("class ", i, " ", names[i], ": ", human_count(counts[i])));
    }
  } else {
    const auto [fewest, most] = std::minmax_element(counts.begin(), counts.end());
    const auto named = [&](const auto& at) {
      return str(human_count(*at), " (", names[static_cast<size_t>(at - counts.begin())], ")");
    };
    text += line("", str(human_count(static_cast<int64_t>(names.size())), " classes of ",
                         named(fewest), " to ", named(most), " samples"));
  }
  if (outside > 0) text += line("", str(human_count(outside), " targets are outside the classes"));
  return text;
}

std::string target_lines(const Store& store) {
  const Field& target = store.schema().target;
  if (target.variable()) return lengths_line(store, &Store::target_rows);
  if (target.element == Element::kFloat32) return range_lines<float>(store);
  const std::vector<std::string> names = class_names(store.origin());
  return names.empty() ? range_lines<int64_t>(store) : class_lines(store, names);
}

std::string splits_text(const Store& store, const Layout& layout) {
  int64_t in_none = store.schema().samples;
  std::vector<std::string> parts;
  for (const char* name : kSplitNames) {
    if (layout.splits.count(name) == 0) continue;
    const auto count = static_cast<int64_t>(store.origin().split(name).size());
    parts.push_back(str(name, " ", human_count(count)));
    in_none -= count;
  }
  if (parts.empty()) return "none (training holds out a share of the groups)";
  if (in_none > 0) parts.push_back(str(human_count(in_none), " in none"));
  return join(parts, ", ");
}

int64_t count_groups(const Store& store) {
  std::set<int64_t> groups;
  for (int64_t id = 0; id < store.schema().samples; ++id) groups.insert(store.origin().group(id));
  return static_cast<int64_t>(groups.size());
}

}  // namespace

std::string inspect_data(const Layout& layout, bool verify, const ReportProgress& report) {
  const std::unique_ptr<Store> store = open_file(layout);
  const Schema& schema = store->schema();
  std::string text;
  text += line("file", str(layout.file.string(), ", ",
                           human_bytes(static_cast<double>(layout.identity.bytes))));
  text += line("format", str("dtrain HDF5, version ", kFormatVersion));
  text += line("task", schema.task);
  text += line("samples", human_count(schema.samples));
  const std::string per_sample =
      schema.input.variable()
          ? ""
          : ", " + human_bytes(static_cast<double>(schema.input.row_bytes())) + " each";
  text +=
      line("inputs", str(text_of(schema.input), per_sample, ", at byte ", layout.inputs.offset));
  if (schema.input.variable()) text += lengths_line(*store, &Store::input_rows);
  text += line("targets", str(text_of(schema.target), ", at byte ", layout.targets.offset));
  text += target_lines(*store);
  text += line("splits", splits_text(*store, layout));
  text += line("groups", human_count(count_groups(*store)));
  text += line("first", store->origin().source(0));
  text += line("checksum", hex(schema.checksum));
  static const std::set<std::string> kShown{"format",      "version",          "task",
                                            "num_samples", "checksum",         "index_checksum",
                                            "class_names", kAttributesChecksum};
  for (const auto& [name, value] : layout.attributes) {
    if (kShown.count(name) == 0) text += line("attribute", str(name, " = ", text_of(value)));
  }
  for (const std::string& name : layout.other_attributes) {
    text += line("attribute", str(name, " (neither text nor a single number: ignored)"));
  }
  if (verify) {
    store->verify(report);
    text += line("verified",
                 str("all ", human_count(schema.samples), " samples match their checksums"));
    const bool covered = layout.attributes.contains(kAttributesChecksum);
    text += line(covered ? "verified" : "not covered",
                 covered ? "the attributes match theirs"
                         : str("by a checksum: the attributes (class names, units). Files that "
                               "this dtrain writes have `",
                               kAttributesChecksum, "`"));
  }
  return text;
}

}  // namespace dtrain::data
