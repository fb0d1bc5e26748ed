#include "data/store.h"

#include <algorithm>
#include <type_traits>

#include "core/check.h"
#include "core/hash.h"

namespace dtrain::data {
namespace {

template <typename T>
constexpr Element element_of() {
  if constexpr (std::is_same_v<T, float>) return Element::kFloat32;
  if constexpr (std::is_same_v<T, int64_t>) return Element::kInt64;
  return Element::kUint8;
}

}  // namespace

template <typename T>
std::vector<T> read_input_as(const Store& store, int64_t id) {
  DTRAIN_CHECK(store.schema().input.element == element_of<T>(), "inputs are ",
               name_of(store.schema().input.element));
  std::vector<T> values(
      static_cast<size_t>(store.input_rows(id) * store.schema().input.row_elements()));
  store.read_input(id, std::as_writable_bytes(std::span(values)));
  return values;
}

template <typename T>
std::vector<T> read_target_as(const Store& store, int64_t id) {
  DTRAIN_CHECK(store.schema().target.element == element_of<T>(), "targets are ",
               name_of(store.schema().target.element));
  std::vector<T> values(
      static_cast<size_t>(store.target_rows(id) * store.schema().target.row_elements()));
  store.read_target(id, std::as_writable_bytes(std::span(values)));
  return values;
}

template std::vector<uint8_t> read_input_as<uint8_t>(const Store&, int64_t);
template std::vector<float> read_input_as<float>(const Store&, int64_t);
template std::vector<float> read_target_as<float>(const Store&, int64_t);
template std::vector<int64_t> read_target_as<int64_t>(const Store&, int64_t);

uint64_t sample_checksum(std::span<const std::byte> input, std::span<const std::byte> target) {
  return xxh64(target, xxh64(input));
}

uint64_t checksum_as_read(const Store& store, int64_t id) {
  std::vector<std::byte> input(static_cast<size_t>(store.input_bytes(id))),
      target(static_cast<size_t>(store.target_bytes(id)));
  store.read_input(id, input);
  store.read_target(id, target);
  return sample_checksum(input, target);
}

int64_t length_of(const Store& store, int64_t id) {
  const Field& input = store.schema().input;
  if (input.variable()) return store.input_rows(id);
  return input.shape.size() == 2 ? input.shape[0] : 1;
}

std::vector<int64_t> largest_samples(const Store& store, std::span<const int64_t> ids,
                                     int64_t count) {
  const auto larger = [&](int64_t a, int64_t b) {
    const int64_t bytes_a = store.input_bytes(a), bytes_b = store.input_bytes(b);
    return bytes_a != bytes_b ? bytes_a > bytes_b : a < b;
  };
  std::vector<int64_t> largest(
      static_cast<size_t>(std::min(count, static_cast<int64_t>(ids.size()))));
  std::partial_sort_copy(ids.begin(), ids.end(), largest.begin(), largest.end(), larger);
  return largest;
}

}  // namespace dtrain::data
