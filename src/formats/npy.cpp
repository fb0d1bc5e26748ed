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
#include "text/utf8.h"

namespace dtrain::formats {
namespace {

static_assert(std::endian::native == std::endian::little,
              "arrays are written without byte swapping");

template <typename T>
T load(const std::byte* at, bool swap) {
  std::array<std::byte, sizeof(T)> bytes;
  std::memcpy(bytes.data(), at, sizeof(T));
  if (swap) std::reverse(bytes.begin(), bytes.end());
  return std::bit_cast<T>(bytes);
}

struct Range {
  size_t first = 0, count = 0;  // elements in C order
};

// Applies `convert` to a range of the elements in C order.
template <typename T, typename To, typename Convert>
std::vector<To> elements_as(const NpyArray& array, Range range, Convert convert) {
  const NpyHeader& header = array.header;
  const std::byte* data = array.file.data() + header.data_offset;
  std::vector<To> result(range.count);
  const auto at = [&](size_t i) {
    return convert(load<T>(data + i * sizeof(T), header.big_endian));
  };
  if (!header.fortran || header.shape.size() < 2) {
    for (size_t i = 0; i < range.count; ++i) result[i] = at(range.first + i);
    return result;
  }
  if (range.count == 0) return result;
  const size_t rank = header.shape.size();
  std::vector<size_t> stride(rank, 1), index(rank, 0);
  for (size_t d = 1; d < rank; ++d)
    stride[d] = stride[d - 1] * static_cast<size_t>(header.shape[d - 1]);
  size_t from = 0, rest = range.first;
  for (size_t d = rank; d-- > 0;) {  // the last index changes fastest
    index[d] = rest % static_cast<size_t>(header.shape[d]);
    rest /= static_cast<size_t>(header.shape[d]);
    from += index[d] * stride[d];
  }
  for (size_t i = 0; i < range.count; ++i) {
    result[i] = at(from);
    for (size_t d = rank; d-- > 0;) {
      from += stride[d];
      if (++index[d] < static_cast<size_t>(header.shape[d])) break;
      from -= stride[d] * index[d];
      index[d] = 0;
    }
  }
  return result;
}

template <typename To, typename Convert>
std::vector<To> elements(const NpyArray& array, int64_t first, int64_t count, Convert convert) {
  using Kind = NpyHeader::Kind;
  DTRAIN_CHECK(first >= 0 && count >= 0 && count <= array.header.elements() - first, first, " + ",
               count);
  const Range range{static_cast<size_t>(first), static_cast<size_t>(count)};
  const auto of = [&]<typename T>(T /*one*/) { return elements_as<T, To>(array, range, convert); };
  const int size = array.header.item_bytes;
  switch (array.header.kind) {
    case Kind::kBool:
      return elements_as<uint8_t, To>(
          array, range, [&](uint8_t value) { return convert(static_cast<uint8_t>(value != 0)); });
    case Kind::kInteger:
      if (size == 1) return of(int8_t{});
      if (size == 2) return of(int16_t{});
      return size == 4 ? of(int32_t{}) : of(int64_t{});
    case Kind::kUnsigned:
      if (size == 1) return of(uint8_t{});
      if (size == 2) return of(uint16_t{});
      return size == 4 ? of(uint32_t{}) : of(uint64_t{});
    case Kind::kFloat:
      if (size == 2) {
        return elements_as<uint16_t, To>(
            array, range, [&](uint16_t bits) { return convert(half_to_float(bits)); });
      }
      return size == 4 ? of(float{}) : of(double{});
    case Kind::kUnicode:
    case Kind::kBytes:
      break;
  }
  throw Error("elements that are no numbers");
}

template <typename T>
int64_t whole(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    // 2^53: not every larger whole number is a double
    constexpr double kLimit = 9007199254740992.0;
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

// One string: of UTF-32 or of bytes, padded with NUL.
std::string text_of(std::span<const std::byte> item, const NpyHeader& header) {
  std::string text;
  if (header.kind == NpyHeader::Kind::kUnicode) {
    for (size_t at = 0; at < item.size(); at += sizeof(uint32_t)) {
      text += utf8_of(load<uint32_t>(item.data() + at, header.big_endian));
    }
  } else {
    text.assign(reinterpret_cast<const char*>(item.data()), item.size());
  }
  text.resize(text.find_last_not_of('\0') + 1);
  return text;
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

std::vector<std::string> parse_npy_text(std::span<const std::byte> file) {
  const NpyHeader header = parse_npy_header(file, file.size(), NpyElements::kText);
  if (header.shape.size() != 1) {
    throw DataError(str("has the shape ", header.shape_text(), ", one dimension is expected"));
  }
  const auto item = static_cast<size_t>(header.item_bytes);
  std::vector<std::string> result;
  for (size_t at = header.data_offset; at < file.size(); at += item) {
    result.push_back(text_of(file.subspan(at, item), header));
    if (!is_utf8(result.back()))
      throw DataError(str("element ", result.size() - 1, " is not UTF-8"));
  }
  return result;
}

std::vector<float> NpyArray::to_float32(int64_t first, int64_t count) const {
  return elements<float>(*this, first, count, [](auto value) { return static_cast<float>(value); });
}

std::vector<int64_t> NpyArray::to_int64(int64_t first, int64_t count) const {
  return elements<int64_t>(*this, first, count, [](auto value) { return whole(value); });
}

std::vector<uint8_t> NpyArray::to_uint8(int64_t first, int64_t count) const {
  DTRAIN_CHECK(header.type() == "uint8", header.type());
  return elements<uint8_t>(*this, first, count,
                           [](auto value) { return static_cast<uint8_t>(value); });
}

std::vector<std::byte> to_npy(std::span<const float> values, const std::vector<int64_t>& shape) {
  return npy_bytes("<f4", std::as_bytes(values), shape);
}

std::vector<std::byte> to_npy(std::span<const int64_t> values, const std::vector<int64_t>& shape) {
  return npy_bytes("<i8", std::as_bytes(values), shape);
}

}  // namespace dtrain::formats
