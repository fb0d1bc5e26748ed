#pragma once

// The format of TensorBoard's event files: TFRecord frames (length and data, each with a masked
// CRC-32C) around `Event` protocol buffers. It is written without a library because LibTorch's
// headers clash with Debian's protobuf, and five fields are all that a scalar needs.
// Specification: tensorflow/core/lib/io/record_writer.h and tensorflow/core/util/event.proto.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace dtrain::monitoring::tfevents {

uint32_t crc32c(std::string_view bytes);
std::string frame(std::string_view data);  // one TFRecord

// Serialized `Event`s. `wall_time` is in seconds since 1970.
std::string version_event(double wall_time);  // must be the first of a file
// Readers drop the events of older files from `step` on
std::string start_event(double wall_time, int64_t step);
std::string scalars_event(double wall_time, int64_t step,
                          std::span<const std::pair<std::string, float>> scalars);

}  // namespace dtrain::monitoring::tfevents
