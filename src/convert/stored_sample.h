#pragma once

// Turns raw images, sequences and sets into stored samples. `convert` writes these samples to a
// file, and `predict` makes the same samples directly from raw files. Errors: DataError with the
// reason, without the sample's name. Thread-safety: all functions may be called from any thread.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "catalog/catalog.h"
#include "data/attributes.h"
#include "data/schema.h"
#include "formats/image.h"
#include "formats/npy.h"

namespace dtrain::convert {

// One sample of a task as it is stored. Inputs: uint8 [width, width, 3] (pictures) or float32
// [rows, width] (sequences and sets). Targets: float32, as many as the task's numbers; int64 class;
// int64 [rows], the order. `sample`: another one for the network of a file, which takes any.
data::Schema schema_of(const catalog::TaskEntry&, catalog::SampleKind, int64_t width);
data::Schema schema_of(const catalog::TaskEntry&, int64_t width);  // the task's own kind of sample
data::Field target_of(const catalog::TaskEntry&);

// What the numbers of the targets are, as root attributes of a file; none where they have no names.
data::Attributes attributes_of(const catalog::TaskEntry&);

// Decodes a JPEG, PNG or WebP to side × side pixels: applies the Exif orientation, puts white
// behind transparent pixels, scales the shorter side to `side` (antialiased) and keeps the
// middle square.
formats::Image stored_photo(std::span<const std::byte> bytes, int side);

// An .npy file as one sequence: [T, F], or [T] which counts as [T, 1], of any number type that
// npy.h reads.
struct SequenceShape {
  int64_t rows = 0, features = 0;
};
// Throws for no rows, no features, other ranks
SequenceShape sequence_shape(const formats::NpyHeader&);

// The values, rows × features. Also throws for another number of features and for NaN or infinity,
// and names its place. A float64 beyond float32's range counts as infinite.
std::vector<float> sequence_rows(const formats::NpyArray&, int64_t features);

// Throws for NaN and infinity, and names the place in rows of `features` values.
void check_finite(std::span<const float> values, int64_t features);

std::vector<std::byte> class_target(int64_t label);

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

}  // namespace dtrain::convert
