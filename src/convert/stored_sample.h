#pragma once

// How raw images, sequences and sets become stored samples: what `convert` writes and `predict` reads in its place.
// Errors: DataError with the reason, without the sample's name. Thread-safety: all functions may be called from any
// thread.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/schema.h"
#include "formats/image.h"
#include "formats/npy.h"

namespace dtrain::convert {

data::Schema image_schema(int size);             // uint8 [size, size, 3] -> int64 class
data::Schema sequence_schema(int64_t features);  // float32 [rows, features] -> int64 class
data::Schema pointer_schema();                   // float32 [n, 8] -> int64 [n], the order

// JPEG or PNG -> side × side pixels: turned upright (Exif), over white where it is transparent, the shorter side scaled
// to `side` (antialiased) and the middle square kept.
formats::Image stored_photo(std::span<const std::byte> bytes, int side);

// An .npy file as one sequence: [T, F], or [T] as [T, 1], of the number types that npy.h reads.
struct SequenceShape {
  int64_t rows = 0, features = 0;
};
SequenceShape sequence_shape(const formats::NpyHeader&);  // throws: no rows, no features, more than two dimensions

// rows × features, float32. Throws also for another number of features and for NaN or infinity (with its place); finite
// float64 values beyond float32 count as infinite.
std::vector<float> sequence_rows(const formats::NpyArray&, int64_t features);

std::vector<std::byte> class_target(int64_t label);

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

}  // namespace dtrain::convert
