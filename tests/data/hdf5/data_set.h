#pragma once

// A small dtrain file with known content: images of 5 x 4 pixels. Pixels and targets are functions
// of the sample's id.

#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "data/hdf5/writer.h"
#include "data/store.h"

namespace dtrain::testing {

inline data::Schema small_schema(int64_t samples) {
  return {
      "headpose", {data::Element::kUint8, {5, 4, 3}}, {data::Element::kFloat32, {3}}, samples, 0};
}

inline std::vector<std::byte> input_of(int64_t id) {
  std::vector<std::byte> bytes(60);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(id * 7 + static_cast<int64_t>(i));
  return bytes;
}

inline std::vector<float> target_of(int64_t id) {
  const auto x = static_cast<float>(id);
  return {x, -x / 2, x / 3};
}

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}
inline std::vector<std::byte> target_bytes_of(int64_t id) { return bytes_of(target_of(id)); }

inline data::Writer::Extras extras_of(int64_t samples, int64_t per_group = 2) {
  data::Writer::Extras extras;
  for (int64_t id = 0; id < samples; ++id) {
    extras.source.push_back("AFW/photo_" + std::to_string(id) + ".jpg");
    extras.group.push_back(id / per_group);
  }
  extras.attributes["crop"] = "0.6";
  return extras;
}

inline void write_data_set(const std::filesystem::path& file, int64_t samples,
                           const data::Writer::Extras& extras) {
  const std::unique_ptr<data::Writer> writer = data::Writer::create(file, small_schema(samples));
  for (int64_t id = 0; id < samples; ++id) writer->write(id, input_of(id), target_bytes_of(id));
  writer->finish(extras);
}

// Copies a file and changes the byte at `position` in the copy.
inline void copy_and_change(const std::filesystem::path& from, const std::filesystem::path& to,
                            int64_t position) {
  std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
  std::fstream stream(to, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(position);
  const char byte = static_cast<char>(stream.get() ^ 0x11);
  stream.seekp(position);
  stream.put(byte);
}

}  // namespace dtrain::testing
