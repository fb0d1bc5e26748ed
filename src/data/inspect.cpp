#include "data/inspect.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>

#include "core/strings.h"
#include "data/layout.h"

namespace dtrain::data {
namespace {

std::string line(std::string_view label, const std::string& value) {
  std::string text(label);
  text.resize(12, ' ');
  return text + value + "\n";
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(std::to_string(size));
  return "[" + join(sizes, ", ") + "]";
}

std::string target_lines(const Store& store) {
  const auto elements = static_cast<size_t>(store.schema().target.row_elements());
  std::vector<float> target(elements);
  std::vector<double> low(elements, std::numeric_limits<double>::infinity()), high(elements, -low[0]), sum(elements, 0);
  int64_t not_a_number = 0;
  for (int64_t id = 0; id < store.schema().samples; ++id) {
    store.read_target(id, std::as_writable_bytes(std::span(target)));
    for (size_t i = 0; i < elements; ++i) {
      const double value = target[i] + 0.0;  // no -0.000
      if (value != value) {
        ++not_a_number;
        continue;
      }
      low[i] = std::min(low[i], value);
      high[i] = std::max(high[i], value);
      sum[i] += value;
    }
  }
  std::string text;
  for (size_t i = 0; i < elements; ++i) {
    text += line("", str("element ", i, ": ", fixed(low[i], 3), " to ", fixed(high[i], 3), ", mean ",
                         fixed(sum[i] / static_cast<double>(store.schema().samples), 3)));
  }
  if (not_a_number > 0) text += line("", str(human_count(not_a_number), " values are NaN"));
  return text;
}

std::string splits_text(const Store& store, const Layout& layout) {
  int64_t in_none = store.schema().samples;
  std::vector<std::string> parts;
  for (const char* name : {"train", "val", "test"}) {
    if (layout.splits.count(name) == 0) continue;
    const auto count = static_cast<int64_t>(store.split(name).size());
    parts.push_back(str(name, " ", human_count(count)));
    in_none -= count;
  }
  if (parts.empty()) return "none (training holds out a share of the groups)";
  if (in_none > 0) parts.push_back(str(human_count(in_none), " in none"));
  return join(parts, ", ");
}

int64_t count_groups(const Store& store) {
  std::set<int64_t> groups;
  for (int64_t id = 0; id < store.schema().samples; ++id) groups.insert(store.group(id));
  return static_cast<int64_t>(groups.size());
}

std::string hex(uint64_t value) {
  std::ostringstream out;
  out << std::hex << value;
  return std::string(16 - out.str().size(), '0') + out.str();
}

}  // namespace

std::string inspect_data(const std::filesystem::path& file, bool verify) {
  const Layout layout = probe(file);
  const std::unique_ptr<Store> store = Store::open(layout);
  const Schema& schema = store->schema();
  std::string text;
  text += line("file", str(file.string(), ", ", human_bytes(static_cast<double>(layout.file_bytes))));
  text += line("format", str("dtrain HDF5, version ", kFormatVersion));
  text += line("task", schema.task);
  text += line("samples", human_count(schema.samples));
  text += line("inputs", str("uint8 ", shape_text(schema.input.shape), ", ",
                             human_bytes(static_cast<double>(schema.input.row_bytes())), " each, at byte ",
                             layout.inputs.offset));
  text += line("targets", str("float32 ", shape_text(schema.target.shape), ", at byte ", layout.targets.offset));
  text += target_lines(*store);
  text += line("splits", splits_text(*store, layout));
  text += line("groups", human_count(count_groups(*store)));
  text += line("first", store->source(0));
  text += line("checksum", hex(schema.checksum));
  static const std::set<std::string> kShown{"format", "version", "task", "num_samples", "checksum", "index_checksum"};
  for (const auto& [name, value] : layout.attributes) {
    if (kShown.count(name) == 0) text += line("attribute", str(name, " = ", value));
  }
  if (verify) {
    store->verify();
    text += line("verified", str("all ", human_count(schema.samples), " samples match their checksums"));
  }
  return text;
}

}  // namespace dtrain::data
