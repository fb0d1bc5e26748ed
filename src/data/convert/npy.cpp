#include "data/convert/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>

#include "core/check.h"
#include "data/convert/read_file.h"

namespace dtrain::data {
namespace {

static_assert(std::endian::native == std::endian::little, "files are read and written as they lie in memory");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kLargestRank = 32;

[[noreturn]] void damaged(const std::string& what) { throw DataError("damaged .npy header: " + what); }

// The header is a Python dictionary of three entries, written as Python prints it.
class DictionaryReader {
 public:
  explicit DictionaryReader(std::string_view text) : text_(text) {}

  void read(NpyHeader& header) {
    expect('{');
    bool descr = false, order = false, shape = false;
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !descr) {
        descr = true;
        read_type(header);
      } else if (key == "fortran_order" && !order) {
        order = true;
        header.fortran = truth();
      } else if (key == "shape" && !shape) {
        shape = true;
        header.shape = tuple();
      } else {
        damaged(str("unexpected key '", key.substr(0, 40), "'"));
      }
      if (!accept(',') && peek() != '}') damaged("no comma between entries");
    }
    if (peek() != '\0') damaged("something follows the dictionary");
    if (!descr || !order || !shape) damaged("descr, fortran_order or shape is missing");
  }

 private:
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) damaged(str("no '", c, "' at byte ", at_));
  }
  std::string quoted() {
    const char mark = peek();
    if (mark != '\'' && mark != '"') damaged(str("no text at byte ", at_));
    const size_t end = text_.find(mark, at_ + 1);
    if (end == std::string_view::npos) damaged("a text that does not end");
    const std::string result(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return result;
  }
  bool truth() {
    peek();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    damaged("fortran_order is neither True nor False");
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> result;
    expect('(');
    while (!accept(')')) {
      result.push_back(number());
      if (result.size() > kLargestRank) damaged("more than 32 dimensions");
      if (!accept(',') && peek() != ')') damaged("no comma in shape");
    }
    return result;
  }
  int64_t number() {
    peek();
    int64_t value = 0;
    const size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (value > (std::numeric_limits<int64_t>::max() - 9) / 10) damaged("a dimension beyond 64 bits");
      value = value * 10 + (text_[at_] - '0');
    }
    if (at_ == begin) damaged("shape holds something that is no number");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // as Python 2 wrote them
    return value;
  }

  void read_type(NpyHeader& header) {
    if (peek() == '[') throw DataError("a structured array; a plain array of numbers is expected");
    const std::string type = quoted();
    const auto refuse = [&](const std::string& what) {
      throw DataError(str(what, " (dtype '", type.substr(0, 40), "'); an array of numbers is expected"));
    };
    if (type.size() < 2) refuse("unknown elements");
    const char order = type[0], kind = type[1];
    if (order != '<' && order != '>' && order != '|' && order != '=') refuse("unknown elements");
    if (kind == 'O') refuse("Python objects, which are not loaded because they may be code");
    if (kind == 'c') refuse("complex numbers");
    if (kind == 'U' || kind == 'S' || kind == 'a') refuse("texts");
    if (kind == 'V') refuse("structured or void elements");
    if (kind == 'M' || kind == 'm') refuse("dates or durations");
    const std::string size = type.substr(2);
    const auto sized = [&](std::initializer_list<const char*> sizes) {
      if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) refuse("elements of a size that is not read");
      header.item_bytes = std::stoi(size);
    };
    if (kind == 'b') {
      header.kind = NpyHeader::Kind::kBool;
      sized({"1"});
    } else if (kind == 'i' || kind == 'u') {
      header.kind = kind == 'i' ? NpyHeader::Kind::kInteger : NpyHeader::Kind::kUnsigned;
      sized({"1", "2", "4", "8"});
    } else if (kind == 'f') {
      header.kind = NpyHeader::Kind::kFloat;
      sized({"2", "4", "8"});
    } else {
      refuse("unknown elements");
    }
    header.big_endian = order == '>';
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Elements × bytes each; none where that is beyond 64 bits.
std::optional<uint64_t> bytes_of(const NpyHeader& header) {
  uint64_t bytes = static_cast<uint64_t>(header.item_bytes);
  if (std::find(header.shape.begin(), header.shape.end(), 0) != header.shape.end()) return 0;
  for (const int64_t size : header.shape) {
    if (bytes > std::numeric_limits<uint64_t>::max() / 2 / static_cast<uint64_t>(size)) return std::nullopt;
    bytes *= static_cast<uint64_t>(size);
  }
  return bytes;
}

struct Half {
  uint16_t bits;
  operator float() const {
    const uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    if (exponent == 0) {  // zero and subnormals: fraction × 2^-24
      const float size = std::ldexp(static_cast<float>(fraction), -24);
      return sign ? -size : size;
    }
    const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
    return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
  }
};

template <typename T>
T load(const std::byte* at, bool swap) {
  std::array<std::byte, sizeof(T)> bytes;
  std::memcpy(bytes.data(), at, sizeof(T));
  if (swap) std::reverse(bytes.begin(), bytes.end());
  return std::bit_cast<T>(bytes);
}

// convert(element) for all elements in C order.
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
    for (size_t d = rank; d-- > 0;) {  // the last index runs fastest
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
        return elements_as<Half, To>(array, [&](Half value) { return convert(static_cast<float>(value)); });
      return size == 4 ? elements_as<float, To>(array, convert) : elements_as<double, To>(array, convert);
  }
  throw Error("unknown kind of elements");
}

template <typename T>
int64_t whole(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    constexpr double kLimit = 9007199254740992.0;  // 2^53: beyond it floats skip whole numbers
    if (!(std::abs(static_cast<double>(value)) <= kLimit) || value != std::floor(value)) {
      throw DataError(str("whole numbers are expected, but it holds ", value));
    }
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      throw DataError(str("holds ", value, ", beyond 64 signed bits"));
    }
  }
  return static_cast<int64_t>(value);
}

std::vector<std::byte> npy_bytes(const char* type, std::span<const std::byte> values,
                                 const std::vector<int64_t>& shape) {
  std::string tuple = "(";
  for (const int64_t size : shape) tuple += str(size, ",");
  if (shape.size() > 1) tuple.pop_back();
  std::string header = str("{'descr': '", type, "', 'fortran_order': False, 'shape': ", tuple, "), }");
  constexpr size_t kPrefix = 10, kAlignment = 64;
  header.append(kAlignment - 1 - (kPrefix + header.size()) % kAlignment, ' ');
  header += '\n';
  std::string all(kMagic);
  all += {'\x01', '\x00', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  all += header;
  const auto begin = std::as_bytes(std::span(all));
  std::vector<std::byte> result(begin.begin(), begin.end());
  result.insert(result.end(), values.begin(), values.end());
  return result;
}

}  // namespace

int64_t NpyHeader::elements() const {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;  // the others may be beyond all bounds
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

std::string NpyHeader::type() const {
  if (kind == Kind::kBool) return "bool";
  const char* name = kind == Kind::kFloat ? "float" : kind == Kind::kInteger ? "int" : "uint";
  return str(name, item_bytes * 8);
}

std::string NpyHeader::shape_text() const {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(std::to_string(size));
  return "[" + join(sizes, ", ") + "]";
}

NpyHeader parse_npy_header(std::span<const std::byte> begin, uint64_t file_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  if (text.empty()) throw DataError("the file is empty");
  if (!text.starts_with(kMagic)) throw DataError("not a .npy file, by its first bytes");
  if (text.size() < 10) throw DataError("truncated .npy header");
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(text[i])); };
  const size_t version = byte(6);
  if (version < 1 || version > 3) damaged(str("version ", version, ".", byte(7), "; 1 to 3 are read"));
  const size_t prefix = version == 1 ? 10 : 12;
  if (text.size() < prefix) throw DataError("truncated .npy header");
  const size_t length =
      version == 1 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (prefix + length > kNpyHeaderBytes) damaged(str("it claims to be ", length, " bytes long"));
  if (prefix + length > text.size()) throw DataError("truncated .npy header");
  NpyHeader header;
  DictionaryReader(text.substr(prefix, length)).read(header);
  header.data_offset = prefix + length;
  const std::optional<uint64_t> bytes = bytes_of(header);
  const uint64_t there = file_bytes - header.data_offset;
  if (!bytes || *bytes > there) {
    throw DataError(str("truncated: the header announces ", header.type(), " ", header.shape_text(),
                        ", the file holds ", there, " bytes of data"));
  }
  if (*bytes < there) {
    throw DataError(str("damaged: the header announces ", header.type(), " ", header.shape_text(), " (", *bytes,
                        " bytes), the file holds ", there, " bytes of data"));
  }
  return header;
}

NpyArray parse_npy(std::vector<std::byte> file) {
  NpyArray array{.header = parse_npy_header(file, file.size()), .file = {}};
  array.file = std::move(file);
  return array;
}

NpyArray read_npy(const std::filesystem::path& file) { return parse_npy(read_file(file)); }

NpyHeader read_npy_header(const std::filesystem::path& file) {
  constexpr uint64_t kUsual = 2048;
  FileBeginning begin = read_beginning(file, kUsual);
  const bool longer = begin.bytes.size() > 11 && begin.file_bytes > kUsual &&
                      (begin.bytes[9] > std::byte{3} || begin.bytes[6] != std::byte{1});
  if (longer) begin = read_beginning(file, kNpyHeaderBytes);
  return parse_npy_header(begin.bytes, begin.file_bytes);
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

}  // namespace dtrain::data
