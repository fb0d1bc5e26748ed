#include "monitoring/tfevents.h"

#include <array>
#include <bit>

namespace dtrain::monitoring::tfevents {
namespace {

static_assert(std::endian::native == std::endian::little,
              "TFRecord and protobuf are little endian");

constexpr std::array<uint32_t, 256> kTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78u : 0u);
    table[i] = value;
  }
  return table;
}();

template <typename T>
void raw(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

// The key of a field. Wire types: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
void key(std::string& out, uint32_t number, uint32_t wire_type) {
  varint(out, number << 3 | wire_type);
}

void bytes(std::string& out, uint32_t number, std::string_view value) {
  key(out, number, 2);
  varint(out, value.size());
  out += value;
}

std::string event(double wall_time, int64_t step) {
  std::string out;
  key(out, 1, 1);
  raw(out, wall_time);
  key(out, 2, 0);
  varint(out, static_cast<uint64_t>(step));
  return out;
}

uint32_t masked(uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8u; }

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char byte : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~crc;
}

std::string frame(std::string_view data) {
  std::string out;
  raw(out, static_cast<uint64_t>(data.size()));
  raw(out, masked(crc32c(out)));
  out += data;
  raw(out, masked(crc32c(data)));
  return out;
}

std::string version_event(double wall_time) {
  std::string out = event(wall_time, 0);
  bytes(out, 3, "brain.Event:2");
  return out;
}

std::string start_event(double wall_time, int64_t step) {
  std::string session_log;
  key(session_log, 1, 0);
  varint(session_log, 1);  // SessionLog.START
  std::string out = event(wall_time, step);
  bytes(out, 7, session_log);
  return out;
}

std::string scalars_event(double wall_time, int64_t step,
                          std::span<const std::pair<std::string, float>> scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    std::string scalar;
    bytes(scalar, 1, tag);
    key(scalar, 2, 5);
    raw(scalar, value);
    bytes(summary, 1, scalar);
  }
  std::string out = event(wall_time, step);
  bytes(out, 5, summary);
  return out;
}

}  // namespace dtrain::monitoring::tfevents
