#include "convert/stored_sample.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "text/strings.h"

namespace dtrain::convert {

data::Field target_of(const catalog::TaskEntry& task) {
  const auto numbers = static_cast<int64_t>(task.numbers.names.size());
  switch (task.target) {
    case catalog::Target::kNumbers:
      return {data::Element::kFloat32,
              numbers == 1 ? std::vector<int64_t>{} : std::vector{numbers}};
    case catalog::Target::kOrder:
      return {data::Element::kInt64, {data::kVariable}};
    default:
      return {data::Element::kInt64, {}};
  }
}

data::Schema schema_of(const catalog::TaskEntry& task, catalog::SampleKind sample, int64_t width) {
  const data::Field input = sample == catalog::SampleKind::kPicture
                                ? data::Field{data::Element::kUint8, {width, width, 3}}
                                : data::Field{data::Element::kFloat32, {data::kVariable, width}};
  return {
      .task = task.name, .input = input, .target = target_of(task), .samples = 0, .checksum = 0};
}

data::Schema schema_of(const catalog::TaskEntry& task, int64_t width) {
  return schema_of(task, task.sample, width);
}

data::Attributes attributes_of(const catalog::TaskEntry& task) {
  data::Attributes attributes;
  if (!task.numbers.names.empty()) attributes["target_names"] = join(task.numbers.names, ",");
  if (!task.numbers.unit.empty()) attributes["target_unit"] = task.numbers.unit;
  return attributes;
}

formats::Image stored_photo(std::span<const std::byte> bytes, int side) {
  constexpr uint8_t kWhite = 255;
  const formats::Image image =
      formats::upright(formats::decode_image(bytes, kWhite), formats::exif_orientation(bytes));
  // Scaling the middle square gives the middle square of the scaled image.
  const double square = std::min(image.width, image.height);
  const double left = (image.width - square) / 2, top = (image.height - square) / 2;
  if (image.width == side && image.height == side) return image;
  return formats::resample(image, {left, top, left + square, top + square}, side, side);
}

SequenceShape sequence_shape(const formats::NpyHeader& header) {
  const std::vector<int64_t>& shape = header.shape;
  if (shape.size() != 1 && shape.size() != 2) {
    throw DataError(
        str("an array of shape ", header.shape_text(), "; a sequence is [T, F] or [T]"));
  }
  const SequenceShape result{.rows = shape[0], .features = shape.size() == 2 ? shape[1] : 1};
  if (result.rows == 0)
    throw DataError(str("a sequence of length 0 (shape ", header.shape_text(), ")"));
  if (result.features == 0)
    throw DataError(str("a sequence without features (shape ", header.shape_text(), ")"));
  return result;
}

std::vector<float> sequence_rows(const formats::NpyArray& array, int64_t features) {
  const SequenceShape shape = sequence_shape(array.header);
  if (shape.features != features) {
    throw DataError(
        str("has ", shape.features, " features per row, the other sequences have ", features));
  }
  std::vector<float> values = array.to_float32();
  check_finite(values, features);
  return values;
}

void check_finite(std::span<const float> values, int64_t features) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    const auto at = static_cast<int64_t>(i);
    throw DataError(str(std::isnan(values[i]) ? "NaN" : "infinity (or a value beyond float32)",
                        " in row ", at / features, ", feature ", at % features));
  }
}

std::vector<std::byte> class_target(int64_t label) { return bytes_of(std::vector<int64_t>{label}); }

}  // namespace dtrain::convert
