#include "data/schema.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

namespace dtrain::data {
namespace {

bool positive(std::span<const int64_t> sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size > 0; });
}

}  // namespace

int64_t size_of(Element element) {
  constexpr int64_t kBytes[] = {1, 4, 8};
  static_assert(std::size(kBytes) == names_of(Element{}).size());
  return kBytes[static_cast<size_t>(element)];
}

int64_t Field::row_elements() const {
  return std::accumulate(shape.begin() + (variable() ? 1 : 0), shape.end(), int64_t{1},
                         std::multiplies<>());
}
int64_t Field::row_bytes() const { return row_elements() * size_of(element); }

std::string text_of(const Field& field) {
  std::string text = std::string(name_of(field.element)) + " [";
  for (size_t i = 0; i < field.shape.size(); ++i) {
    text +=
        (i ? ", " : "") + (field.shape[i] == kVariable ? "rows" : std::to_string(field.shape[i]));
  }
  return text + "]";
}

bool storable_input(const Field& field) {
  const std::span<const int64_t> shape(field.shape);
  if (field.element == Element::kUint8)
    return shape.size() == 3 && positive(shape) && shape[2] == 3;
  if (field.element != Element::kFloat32) return false;
  if (field.variable()) return shape.size() == 2 && positive(shape.subspan(1));
  return (shape.size() == 1 || shape.size() == 2) && positive(shape);
}

bool storable_target(const Field& field) {
  if (field.variable()) return field.element == Element::kInt64 && field.shape.size() == 1;
  return field.element != Element::kUint8 && field.shape.size() <= 1 && positive(field.shape);
}

}  // namespace dtrain::data
