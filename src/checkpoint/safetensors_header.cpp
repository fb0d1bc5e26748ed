#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <utility>

#include "core/error.h"
#include "core/strings.h"

namespace dtrain::checkpoint {
namespace {

constexpr std::array<std::pair<std::string_view, int64_t>, 10> kDtypes = {{{"F64", 8},
                                                                           {"F32", 4},
                                                                           {"F16", 2},
                                                                           {"BF16", 2},
                                                                           {"I64", 8},
                                                                           {"I32", 4},
                                                                           {"I16", 2},
                                                                           {"I8", 1},
                                                                           {"U8", 1},
                                                                           {"BOOL", 1}}};

// The position of the first byte that is not part of well-formed UTF-8 (no overlong forms, surrogates, or beyond
// U+10FFFF); npos if all is well.
size_t first_not_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  for (size_t i = 0; i < text.size();) {
    const unsigned first = byte(i), second = byte(i + 1);
    if (first < 0x80) {
      ++i;
      continue;
    }
    const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4) return i;
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F)) return i;
    if ((first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) return i;
    for (size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return i;
    }
    i += length;
  }
  return std::string_view::npos;
}

void append_utf8(std::string* out, unsigned code) {
  if (code < 0x80) {
    *out += static_cast<char>(code);
  } else if (code < 0x800) {
    *out += static_cast<char>(0xC0 | (code >> 6));
    *out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    *out += static_cast<char>(0xE0 | (code >> 12));
    *out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    *out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    *out += static_cast<char>(0xF0 | (code >> 18));
    *out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    *out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    *out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

class Parser {
 public:
  Parser(std::string_view json, const std::string& file) : json_(json), file_(file) {}

  SafetensorsHeader run() {
    SafetensorsHeader header;
    bool has_metadata = false;
    object([&](const std::string& key) {
      if (key != "__metadata__") {
        header.tensors.push_back(tensor(key));
        return;
      }
      if (std::exchange(has_metadata, true)) fail("has __metadata__ twice");
      object([&](const std::string& name) {
        if (peek() != '"') fail(str("has the metadata \"", name, "\" that is not text"));
        if (!header.metadata.emplace(name, string()).second) fail(str("has the metadata \"", name, "\" twice"));
      });
    });
    if (peek() != '\0' || at_ < json_.size()) fail("has something after its closing brace");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw CheckpointError(str(file_, ": the safetensors header ", what, " (header byte ", at_, ")"));
  }

  char peek() {
    while (at_ < json_.size() && std::strchr(" \t\r\n", json_[at_]) != nullptr && json_[at_] != '\0') ++at_;
    return at_ < json_.size() ? json_[at_] : '\0';
  }

  void expect(char wanted) {
    if (peek() != wanted || at_ == json_.size()) {
      fail(str("is not JSON of the expected form: '", wanted, "' should be ",
               at_ == json_.size() ? "at its end" : "here"));
    }
    ++at_;
  }

  // "," or the closing character; true: another element follows.
  bool more(char closing) {
    if (peek() == ',') {
      ++at_;
      return true;
    }
    expect(closing);
    return false;
  }

  template <typename Member>
  void object(const Member& member) {
    expect('{');
    if (peek() == '}') {
      ++at_;
      return;
    }
    do {
      if (peek() != '"') expect('"');
      const std::string key = string();
      expect(':');
      member(key);
    } while (more('}'));
  }

  unsigned hex4() {
    unsigned value = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = at_ < json_.size() ? json_[at_] : '\0';
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) fail("has a bad \\u escape");
      value = value * 16 + static_cast<unsigned>(digit);
    }
    return value;
  }

  void escape(std::string* out) {
    static constexpr std::string_view kNames = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
    const char name = at_ < json_.size() ? json_[at_++] : '\0';
    if (const size_t i = kNames.find(name); i != std::string_view::npos) {
      *out += kValues[i];
      return;
    }
    if (name != 'u') fail("has an unknown escape in a string");
    unsigned code = hex4();
    if (code >= 0xD800 && code < 0xDC00) {
      if (json_.substr(at_, 2) != "\\u") fail("has half a surrogate pair");
      at_ += 2;
      const unsigned low = hex4();
      if (low < 0xDC00 || low > 0xDFFF) fail("has half a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code <= 0xDFFF) {
      fail("has half a surrogate pair");
    }
    append_utf8(out, code);
  }

  std::string string() {
    expect('"');
    std::string text;
    while (true) {
      size_t end = at_;
      while (end < json_.size() && json_[end] != '"' && json_[end] != '\\' &&
             static_cast<unsigned char>(json_[end]) >= 0x20) {
        ++end;
      }
      text.append(json_.substr(at_, end - at_));
      at_ = end;
      if (at_ == json_.size()) fail("ends inside a string");
      if (static_cast<unsigned char>(json_[at_]) < 0x20) fail("has a control character in a string");
      if (json_[at_++] == '"') return text;
      escape(&text);
    }
  }

  uint64_t natural(const std::string& of) {
    if (peek() < '0' || peek() > '9') fail(str("has ", of, " that is not a natural number"));
    const size_t start = at_;
    uint64_t value = 0;
    for (; at_ < json_.size() && json_[at_] >= '0' && json_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(value, uint64_t{10}, &value) ||
          __builtin_add_overflow(value, static_cast<uint64_t>(json_[at_] - '0'), &value) || value > INT64_MAX) {
        fail(str("has ", of, " beyond 2^63"));
      }
    }
    if (at_ - start > 1 && json_[start] == '0') fail(str("has ", of, " with a leading zero"));
    if (at_ < json_.size() && std::strchr(".eE", json_[at_]) != nullptr && json_[at_] != '\0') {
      fail(str("has ", of, " that is not a natural number"));
    }
    return value;
  }

  std::vector<uint64_t> naturals(const std::string& of) {
    std::vector<uint64_t> values;
    expect('[');
    if (peek() == ']') {
      ++at_;
      return values;
    }
    do {
      values.push_back(natural(of));
    } while (more(']'));
    return values;
  }

  TensorEntry tensor(const std::string& name) {
    TensorEntry entry;
    entry.name = name;
    const std::string of = str(" of tensor \"", name, "\"");
    bool has_dtype = false, has_shape = false, has_offsets = false;
    object([&](const std::string& key) {
      bool* seen = key == "dtype"          ? &has_dtype
                   : key == "shape"        ? &has_shape
                   : key == "data_offsets" ? &has_offsets
                                           : nullptr;
      if (seen == nullptr) fail(str("has the unknown key \"", key, "\"", of));
      if (std::exchange(*seen, true)) fail(str("has the key \"", key, "\" twice", of));
      if (seen == &has_dtype) {
        if (peek() != '"') fail(str("has a dtype", of, " that is not text"));
        entry.dtype = string();
      } else if (seen == &has_shape) {
        const std::vector<uint64_t> shape = naturals("a shape" + of);
        entry.shape.assign(shape.begin(), shape.end());
      } else {
        const std::vector<uint64_t> offsets = naturals("data_offsets" + of);
        if (offsets.size() != 2) fail(str("has ", offsets.size(), " data_offsets", of, ", must be 2"));
        entry.begin = offsets[0];
        entry.end = offsets[1];
      }
    });
    for (const auto& [there, key] :
         {std::pair(has_dtype, "dtype"), {has_shape, "shape"}, {has_offsets, "data_offsets"}}) {
      if (!there) fail(str("lacks the key \"", key, "\"", of));
    }
    return entry;
  }

  const std::string_view json_;
  const std::string& file_;
  size_t at_ = 0;
};

void check_size(const TensorEntry& entry, const std::string& file) {
  const int64_t size = dtype_bytes(entry.dtype);
  if (size == 0)
    throw CheckpointError(str(file, ": tensor \"", entry.name, "\" has the unknown dtype \"", entry.dtype, "\""));
  int64_t bytes = size;
  bool overflow = false;
  // Zeros are left out of the overflow check's product, else the order of the dimensions would decide what is refused.
  for (const int64_t n : entry.shape) overflow |= n != 0 && __builtin_mul_overflow(bytes, n, &bytes);
  if (overflow) throw CheckpointError(str(file, ": tensor \"", entry.name, "\" has a shape of more than 2^63 bytes"));
  if (std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end()) bytes = 0;
  if (entry.end < entry.begin) {
    throw CheckpointError(
        str(file, ": tensor \"", entry.name, "\" ends at ", entry.end, " before it begins at ", entry.begin));
  }
  if (entry.end - entry.begin != static_cast<uint64_t>(bytes)) {
    throw CheckpointError(str(file, ": tensor \"", entry.name, "\" has ", entry.end - entry.begin,
                              " bytes, but its shape and dtype need ", bytes));
  }
}

void check_unique(const std::vector<TensorEntry>& tensors, const std::string& file) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorEntry& entry : tensors) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) throw CheckpointError(str(file, ": tensor \"", *twice, "\" is there twice"));
}

void check_cover(const std::vector<TensorEntry>& tensors, uint64_t data_bytes, const std::string& file) {
  std::vector<const TensorEntry*> order;
  order.reserve(tensors.size());
  for (const TensorEntry& entry : tensors) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t expected = 0;
  for (const TensorEntry* entry : order) {
    if (entry->end > data_bytes) {
      throw CheckpointError(str(file, ": tensor \"", entry->name, "\" ends at byte ", entry->end,
                                " of the data, but there are only ", data_bytes, ": the file is truncated"));
    }
    if (entry->begin != expected) {
      throw CheckpointError(
          str(file, ": tensor \"", entry->name, "\" begins at byte ", entry->begin, " of the data, ",
              entry->begin < expected ? "inside the one before, which ends at " : "after a hole that begins at ",
              expected));
    }
    expected = entry->end;
  }
  if (expected != data_bytes) {
    throw CheckpointError(str(file, ": ", data_bytes - expected, " bytes follow the last tensor"));
  }
}

}  // namespace

int64_t dtype_bytes(std::string_view dtype) {
  for (const auto& [name, bytes] : kDtypes) {
    if (name == dtype) return bytes;
  }
  return 0;
}

uint64_t header_length(std::span<const std::byte> first8, uint64_t file_bytes, const std::string& file) {
  if (first8.size() < 8) {
    throw CheckpointError(
        str(file, ": not a safetensors file: ", file_bytes, " bytes, too short for a header's length"));
  }
  uint64_t length = 0;
  std::memcpy(&length, first8.data(), 8);
  if (length > kMaxHeaderBytes) {
    throw CheckpointError(str(file, ": not a safetensors file: a header of ", length, " bytes; at most ",
                              kMaxHeaderBytes, " are allowed"));
  }
  if (length > file_bytes - 8) {
    throw CheckpointError(
        str(file, ": the header has ", length, " bytes, but the file only ", file_bytes, ": it is truncated"));
  }
  return length;
}

SafetensorsHeader parse_header(std::string_view json, uint64_t data_bytes, const std::string& file) {
  if (json.empty() || json[0] != '{')
    throw CheckpointError(str(file, ": the safetensors header does not begin with '{'"));
  if (const size_t at = first_not_utf8(json); at != std::string_view::npos) {
    throw CheckpointError(str(file, ": the safetensors header is not UTF-8 at byte ", at));
  }
  SafetensorsHeader header = Parser(json, file).run();
  header.data_start = 8 + json.size();
  for (const TensorEntry& entry : header.tensors) check_size(entry, file);
  check_unique(header.tensors, file);
  check_cover(header.tensors, data_bytes, file);
  return header;
}

void read_exactly(std::istream& in, uint64_t position, std::span<std::byte> out, const std::string& file) {
  in.seekg(static_cast<std::streamoff>(position));
  if (!in.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size()))) {
    throw CheckpointError(str(file, ": ", out.size(), " bytes at ", position, " cannot be read"));
  }
}

SafetensorsHeader read_header(const std::filesystem::path& path) {
  const std::string file = path.string();
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) throw CheckpointError(str(file, ": ", error.message()));
  std::ifstream in(path, std::ios::binary);
  if (!in) throw CheckpointError(str(file, ": cannot be opened"));
  std::array<std::byte, 8> first8{};
  const std::span<std::byte> start = std::span(first8).first(std::min<uint64_t>(8, size));
  read_exactly(in, 0, start, file);
  std::string json(header_length(start, size, file), '\0');
  read_exactly(in, 8, std::as_writable_bytes(std::span(json)), file);
  return parse_header(json, size - 8 - json.size(), file);
}

std::string json_string(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += str("\\u00", kDigits[c >> 4], kDigits[c & 15]);
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace dtrain::checkpoint
