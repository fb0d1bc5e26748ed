#pragma once

// TensorBoard's event file, by hand: TFRecord frames (length and data, each with a masked CRC-32C) around `Event`
// protocol buffers. LibTorch's headers clash with Debian's protobuf, and a scalar needs five fields of it. Source:
// tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtrain::monitoring::tfevents {

uint32_t crc32c(std::string_view bytes);
std::string frame(std::string_view data);  // one TFRecord

// Serialised `Event`s. `wall_time` in seconds since 1970.
std::string version_event(double wall_time);              // must be the first of a file
std::string start_event(double wall_time, int64_t step);  // readers drop what older files hold from `step` on
std::string scalars_event(double wall_time, int64_t step, std::span<const std::pair<std::string, float>> scalars);

}  // namespace dtrain::monitoring::tfevents
