#include "formats/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/check.h"
#include "core/half_to_float.h"
#include "formats/read_file.h"

namespace dtrain::formats {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are written without byte swapping");

template <typename T>
T load(const std::byte* at, bool swap) {
  std::array<std::byte, sizeof(T)> bytes;
  std::memcpy(bytes.data(), at, sizeof(T));
  if (swap) std::reverse(bytes.begin(), bytes.end());
  return std::bit_cast<T>(bytes);
}

// Applies `convert` to all elements in C order.
template <typename T, typename To, typename Convert>
std::vector<To> elements_as(const NpyArray& array, Convert convert) {
  const NpyHeader& header = array.header;
  const std::byte* data = array.file.data() + header.data_offset;
  const auto count = static_cast<size_t>(header.elements());
  std::vector<To> result(count);
  const auto at = [&](size_t i) { return convert(load<T>(data + i * sizeof(T), header.big_endian)); };
  if (!header.fortran || header.shape.size() < 2) {
    for (size_t i = 0; i < count; ++i) result[i] = at(i);
    return result;
  }
  const size_t rank = header.shape.size();
  std::vector<size_t> stride(rank, 1), index(rank, 0);
  for (size_t d = 1; d < rank; ++d) stride[d] = stride[d - 1] * static_cast<size_t>(header.shape[d - 1]);
  size_t from = 0;
  for (size_t i = 0; i < count; ++i) {
    result[i] = at(from);
    for (size_t d = rank; d-- > 0;) {  // the last index changes fastest
      from += stride[d];
      if (++index[d] < static_cast<size_t>(header.shape[d])) break;
      from -= stride[d] * index[d];
      index[d] = 0;
    }
  }
  return result;
}

template <typename To, typename Convert>
std::vector<To> all_elements(const NpyArray& array, Convert convert) {
  using Kind = NpyHeader::Kind;
  const int size = array.header.item_bytes;
  switch (array.header.kind) {
    case Kind::kBool:
      return elements_as<uint8_t, To>(array, [&](uint8_t value) { return convert(static_cast<uint8_t>(value != 0)); });
    case Kind::kInteger:
      if (size == 1) return elements_as<int8_t, To>(array, convert);
      if (size == 2) return elements_as<int16_t, To>(array, convert);
      return size == 4 ? elements_as<int32_t, To>(array, convert) : elements_as<int64_t, To>(array, convert);
    case Kind::kUnsigned:
      if (size == 1) return elements_as<uint8_t, To>(array, convert);
      if (size == 2) return elements_as<uint16_t, To>(array, convert);
      return size == 4 ? elements_as<uint32_t, To>(array, convert) : elements_as<uint64_t, To>(array, convert);
    case Kind::kFloat:
      if (size == 2)
        return elements_as<uint16_t, To>(array, [&](uint16_t bits) { return convert(half_to_float(bits)); });
      return size == 4 ? elements_as<float, To>(array, convert) : elements_as<double, To>(array, convert);
  }
  throw Error("unknown kind of elements");
}

template <typename T>
int64_t whole(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    constexpr double kLimit = 9007199254740992.0;  // 2^53: not every larger whole number is a double
    if (!(std::abs(static_cast<double>(value)) <= kLimit) || value != std::floor(value)) {
      throw DataError(str("whole numbers are expected, but it contains ", value));
    }
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      throw DataError(str("contains ", value, ", which does not fit into int64"));
    }
  }
  return static_cast<int64_t>(value);
}

std::vector<std::byte> npy_bytes(const char* type, std::span<const std::byte> values,
                                 const std::vector<int64_t>& shape) {
  const std::string header = npy_header(type, shape);
  const auto begin = std::as_bytes(std::span(header));
  std::vector<std::byte> result(begin.begin(), begin.end());
  result.insert(result.end(), values.begin(), values.end());
  return result;
}

}  // namespace

NpyArray parse_npy(std::vector<std::byte> file) {
  NpyArray array{.header = parse_npy_header(file, file.size()), .file = {}};
  array.file = std::move(file);
  return array;
}

NpyArray read_npy(const std::filesystem::path& file) {
  static_cast<void>(read_npy_header(file));  // refuses a wrong file size before memory is allocated
  return parse_npy(read_file(file));
}

std::vector<float> NpyArray::to_float32() const {
  return all_elements<float>(*this, [](auto value) { return static_cast<float>(value); });
}

std::vector<int64_t> NpyArray::to_int64() const {
  return all_elements<int64_t>(*this, [](auto value) { return whole(value); });
}

std::vector<std::byte> to_npy(std::span<const float> values, const std::vector<int64_t>& shape) {
  return npy_bytes("<f4", std::as_bytes(values), shape);
}

std::vector<std::byte> to_npy(std::span<const int64_t> values, const std::vector<int64_t>& shape) {
  return npy_bytes("<i8", std::as_bytes(values), shape);
}

}  // namespace dtrain::formats
