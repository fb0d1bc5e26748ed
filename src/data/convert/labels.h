#pragma once

// How samples of the tasks classify, sequence and pointer are stored: schemas of one sample and targets as bytes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/store.h"

namespace dtrain::data {

Schema image_schema(int size);             // uint8 [size, size, 3] -> int64 class
Schema sequence_schema(int64_t features);  // float32 [rows, features] -> int64 class
Schema pointer_schema();                   // float32 [n, 8] -> int64 [n], the order

std::vector<std::byte> class_target(int64_t label);

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

}  // namespace dtrain::data
