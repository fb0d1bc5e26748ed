#include "formats/npy_header.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "formats/read_file.h"
#include "text/number_text.h"

namespace dtrain::formats {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kLargestRank = 32;

[[noreturn]] void damaged(const std::string& what) {
  throw DataError("damaged .npy header: " + what);
}

// A dtype without its byte order, such as "f4". Names and one-letter codes, which NumPy reads but
// does not write, become the code with the size; those whose size depends on the machine (int,
// long, l) do not.
std::string short_code(std::string_view type) {
  static constexpr std::pair<std::string_view, std::string_view> kCodes[] = {
      {"?", "b1"},       {"bool", "b1"},    {"b", "i1"},      {"int8", "i1"},    {"h", "i2"},
      {"int16", "i2"},   {"i", "i4"},       {"int32", "i4"},  {"q", "i8"},       {"int64", "i8"},
      {"B", "u1"},       {"uint8", "u1"},   {"H", "u2"},      {"uint16", "u2"},  {"I", "u4"},
      {"uint32", "u4"},  {"Q", "u8"},       {"uint64", "u8"}, {"e", "f2"},       {"half", "f2"},
      {"f", "f4"},       {"single", "f4"},  {"d", "f8"},      {"double", "f8"},  {"float16", "f2"},
      {"float32", "f4"}, {"float64", "f8"}, {"float", "f8"},  {"bfloat16", "V2"}};
  const auto* found =
      std::ranges::find(kCodes, type, &std::pair<std::string_view, std::string_view>::first);
  return std::string(found == std::end(kCodes) ? type : found->second);
}

std::string untyped(const char* bytes, const char* types) {
  return str("elements of ", bytes, " without a type, as NumPy writes ", types,
             ": save array.astype('float32')");
}

// Parses the header's text, a Python dictionary with three entries.
class DictionaryReader {
 public:
  DictionaryReader(std::string_view text, NpyElements wanted) : text_(text), wanted_(wanted) {}

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
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t'))
      ++at_;
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
    if (mark != '\'' && mark != '"') damaged(str("no string at byte ", at_));
    const size_t end = text_.find(mark, at_ + 1);
    if (end == std::string_view::npos) damaged("a string does not end");
    const std::string result(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return result;
  }
  bool truth() {
    peek();
    for (const auto& [word, value] :
         {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
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
      if (value > (std::numeric_limits<int64_t>::max() - 9) / 10)
        damaged("a dimension beyond 64 bits");
      value = value * 10 + (text_[at_] - '0');
    }
    if (at_ == begin) damaged("shape contains something that is not a number");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // a suffix that Python 2 wrote
    return value;
  }

  void read_type(NpyHeader& header) {
    if (peek() == '[') throw DataError("a structured array; a plain array of numbers is expected");
    const std::string type = quoted();
    const auto refuse = [&](const std::string& what) {
      throw DataError(str(what, " (dtype '", type.substr(0, 40), "'); ",
                          wanted_ == NpyElements::kText
                              ? "an array of strings is expected"
                              : "float16, 32 or 64, integers of 8 to 64 bits, or bool are "
                                "expected"));
    };
    const bool ordered = type.find_first_of("<>|=") == 0;
    const std::string code = short_code(std::string_view(type).substr(ordered ? 1 : 0));
    if (code.empty()) refuse("unknown elements");
    const char kind = code[0];
    const std::string size = code.substr(1);
    if (kind == 'O') refuse("Python objects, which are not loaded because that can run code");
    header.big_endian = type[0] == '>';
    if (wanted_ == NpyElements::kText) {
      if (kind != 'U' && kind != 'S' && kind != 'a') refuse("no strings");
      constexpr int kMostCharacters = 1 << 20;
      const std::optional<int> characters = parse_number<int>(size);
      if (!characters || *characters < 1 || *characters > kMostCharacters)
        refuse("strings of an unsupported length");
      header.kind = kind == 'U' ? NpyHeader::Kind::kUnicode : NpyHeader::Kind::kBytes;
      header.item_bytes = *characters * (kind == 'U' ? 4 : 1);
      return;
    }
    if (kind == 'c') refuse("complex numbers");
    if (kind == 'U' || kind == 'S' || kind == 'a') refuse("strings");
    if (code == "V2") refuse(untyped("2 bytes", "bfloat16"));
    if (code == "V1") refuse(untyped("1 byte", "float8 and int4"));
    if (kind == 'V') refuse("structured or void elements");
    if (kind == 'M' || kind == 'm') refuse("dates or durations");
    const auto sized = [&](std::initializer_list<const char*> sizes) {
      if (std::ranges::find(sizes, size) == sizes.end()) refuse("elements of an unsupported size");
      header.item_bytes = parse_number<int>(size).value();
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
  }

  std::string_view text_;
  NpyElements wanted_;
  size_t at_ = 0;
};

}  // namespace

int64_t NpyHeader::elements() const {
  if (std::ranges::find(shape, 0) != shape.end())
    return 0;  // the product of the others may overflow
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

uint64_t NpyHeader::file_bytes() const {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  if (std::ranges::find(shape, 0) != shape.end()) return data_offset;
  auto bytes = static_cast<uint64_t>(item_bytes);
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) return kMost;
  }
  return __builtin_add_overflow(bytes, data_offset, &bytes) ? kMost : bytes;
}

std::string NpyHeader::type() const {
  if (kind == Kind::kBool) return "bool";
  if (kind == Kind::kUnicode || kind == Kind::kBytes) return "text";
  const char* name = kind == Kind::kFloat ? "float" : kind == Kind::kInteger ? "int" : "uint";
  return str(name, item_bytes * 8);
}

std::string NpyHeader::shape_text() const { return dtrain::shape_text(shape); }

NpyHeader parse_npy_header(std::span<const std::byte> begin, NpyElements wanted) {
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  if (text.empty()) throw DataError("the file is empty");
  if (!text.starts_with(kMagic)) throw DataError("not a .npy file, judged by its first bytes");
  if (text.size() < 10) throw DataError("truncated .npy header");
  const auto byte = [&](size_t i) {
    return static_cast<size_t>(static_cast<unsigned char>(text[i]));
  };
  const size_t version = byte(6);
  if (version < 1 || version > 3)
    damaged(str("version ", version, ".", byte(7), "; versions 1 to 3 are supported"));
  const size_t prefix = version == 1 ? 10 : 12;
  if (text.size() < prefix) throw DataError("truncated .npy header");
  const size_t length = version == 1 ? byte(8) | byte(9) << 8
                                     : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (prefix + length > kNpyHeaderBytes) damaged(str("it declares a length of ", length, " bytes"));
  if (prefix + length > text.size()) throw DataError("truncated .npy header");
  NpyHeader header;
  DictionaryReader(text.substr(prefix, length), wanted).read(header);
  header.data_offset = prefix + length;
  if (header.file_bytes() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    damaged(str("it declares ", header.type(), " ", header.shape_text(),
                ", more bytes than a file can have"));
  }
  return header;
}

NpyHeader parse_npy_header(std::span<const std::byte> begin, uint64_t file_bytes,
                           NpyElements wanted) {
  NpyHeader header = parse_npy_header(begin, wanted);
  const uint64_t declared = header.file_bytes(), there = file_bytes - header.data_offset;
  if (declared > file_bytes) {
    throw DataError(str("truncated: the header declares ", header.type(), " ", header.shape_text(),
                        ", the file has ", there, " bytes of data"));
  }
  if (declared < file_bytes) {
    throw DataError(str("damaged: the header declares ", header.type(), " ", header.shape_text(),
                        " (", declared - header.data_offset, " bytes), the file has ", there,
                        " bytes of data"));
  }
  return header;
}

NpyHeader read_npy_header(const std::filesystem::path& file) {
  constexpr uint64_t kUsual = 2048;
  FileBeginning begin = read_beginning(file, kUsual);
  const bool longer = begin.bytes.size() > 11 && begin.file_bytes > kUsual &&
                      (begin.bytes[9] > std::byte{3} || begin.bytes[6] != std::byte{1});
  if (longer) begin = read_beginning(file, kNpyHeaderBytes);
  return parse_npy_header(begin.bytes, begin.file_bytes);
}

std::string npy_header(const char* type, const std::vector<int64_t>& shape) {
  std::string tuple = "(";
  for (const int64_t size : shape) tuple += str(size, ",");
  if (shape.size() > 1) tuple.pop_back();
  std::string header =
      str("{'descr': '", type, "', 'fortran_order': False, 'shape': ", tuple, "), }");
  constexpr size_t kPrefix = 10, kAlignment = 64;
  header.append(kAlignment - 1 - (kPrefix + header.size()) % kAlignment, ' ');
  header += '\n';
  std::string all(kMagic);
  all += {'\x01', '\x00', static_cast<char>(header.size() & 255),
          static_cast<char>(header.size() >> 8)};
  return all + header;
}

}  // namespace dtrain::formats
