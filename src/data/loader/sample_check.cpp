#include "data/loader/sample_check.h"

#include <bit>
#include <cmath>
#include <vector>

#include "core/host_device.h"
#include "text/strings.h"

namespace dtrain::data {
namespace {

template <typename T>
std::span<const T> values_of(std::span<const std::byte> target) {
  return {reinterpret_cast<const T*>(target.data()), target.size() / sizeof(T)};
}

std::string number_defect(const SampleSpec& spec, std::span<const float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::abs(values[i]) <= spec.target_limit) continue;  // false for NaN
    const std::string name =
        i < spec.target_names.size() ? spec.target_names[i] : str("target ", i);
    return str(name, " is ", values[i],
               std::isfinite(values[i]) ? str(", beyond ±", spec.target_limit) : "");
  }
  return "";
}

std::string class_defect(int64_t classes, std::span<const int64_t> values) {
  constexpr int64_t kIgnoredByPyTorch = -100;
  for (const int64_t value : values) {
    if (value >= 0 && value < classes) continue;
    return str("class ", value, " is not between 0 and ", classes - 1,
               value == kIgnoredByPyTorch
                   ? ", and no target is ignored, as it is by PyTorch's ignore_index"
                   : "");
  }
  return "";
}

}  // namespace

std::string order_defect(std::span<const int64_t> order, int64_t elements) {
  if (static_cast<int64_t>(order.size()) != elements) {
    return str("the order has ", order.size(), " entries for ", elements, " elements");
  }
  std::vector<bool> seen(static_cast<size_t>(elements));
  for (const int64_t element : order) {
    if (element < 0 || element >= elements) {
      return str("the order names element ", element, " of a set of ", elements);
    }
    if (seen[static_cast<size_t>(element)])
      return str("the order names element ", element, " twice");
    seen[static_cast<size_t>(element)] = true;
  }
  return "";
}

std::string target_defect(const SampleSpec& spec, Element element,
                          std::span<const std::byte> target, int64_t rows) {
  if (element == Element::kFloat32) return number_defect(spec, values_of<float>(target));
  if (element != Element::kInt64) return "";
  if (spec.target_is_order) return order_defect(values_of<int64_t>(target), rows);
  const int64_t classes =
      spec.class_numbers.empty() ? spec.classes : static_cast<int64_t>(spec.class_numbers.size());
  return classes > 0 ? class_defect(classes, values_of<int64_t>(target)) : "";
}

std::string length_defect(const Store& store, const SampleSpec& spec, int64_t id) {
  if (spec.kind == SampleSpec::Kind::kImage) return "";
  const int64_t rows = length_of(store, id);
  if (rows == 0) return "has no rows";
  if (!too_long(store, spec, id)) return "";
  return str("has ", rows, " rows; the network takes up to ", spec.longest,
             ", as many as the longest sample that it was trained on");
}

bool too_long(const Store& store, const SampleSpec& spec, int64_t id) {
  return spec.longest > 0 && length_of(store, id) > spec.longest;
}

// A float is not finite if its exponent bits are all ones. The loop has no early exit, so that
// compilers vectorize it.
DTRAIN_ROW_LOOP bool all_finite(std::span<const float> values) {
  const float* value = values.data();
  const auto count = static_cast<int64_t>(values.size());
  uint32_t bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto exponent = std::bit_cast<uint32_t>(value[i]) & 0x7f800000u;
    bad |= exponent == 0x7f800000u ? ~0u : 0u;
  }
  return bad == 0;
}

int64_t first_not_finite(std::span<const float> values) {
  if (all_finite(values)) return -1;
  int64_t i = 0;
  while (std::isfinite(values[static_cast<size_t>(i)])) ++i;
  return i;
}

std::string bad_sample(const Store& store, int64_t id, const std::string& what, bool skip_bad) {
  const std::string name = store.origin().name(id), source = store.origin().source(id);
  return str(name, ": ", what, source.empty() || source == name ? "" : " (" + source + ")",
             skip_bad ? ""
                      : ". Convert the raw data again, corrected or without such samples, or leave "
                        "them out here: data.on_bad_sample: skip.");
}

void check_images(const Store& store) {
  const Field& input = store.schema().input;
  if (input.element == Element::kUint8 && storable_input(input)) return;
  throw DataError(
      str(store.origin().path().string(), ": samples of ", text_of(input),
          " are not RGB images, uint8 [height, width, 3]. Make the file with `dtrain convert`."));
}

void check_samples(const Store& store, const SampleSpec& spec) {
  const Schema& schema = store.schema();
  std::vector<std::byte> target;
  for (int64_t id = 0; id < schema.samples; ++id) {
    std::string what = length_defect(store, spec, id);
    if (what.empty()) {
      target.resize(static_cast<size_t>(store.target_bytes(id)));
      store.read_target(id, target);
      what = target_defect(spec, schema.target.element, target, length_of(store, id));
    }
    if (!what.empty()) throw DataError(bad_sample(store, id, what, /*skip_bad=*/false));
  }
}

}  // namespace dtrain::data
