#include "checkpoint/safetensors_json.h"

#include <cstring>

#include "core/error.h"
#include "core/strings.h"

namespace dtrain::checkpoint {
namespace {

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

}  // namespace

JsonReader::JsonReader(std::string_view json, const std::string& file) : json_(json), file_(file) {
  if (const size_t at = first_not_utf8(json); at != std::string_view::npos) {
    throw CheckpointError(str(file, ": the safetensors header is not UTF-8 at byte ", at));
  }
}

void JsonReader::fail(const std::string& what) const {
  throw CheckpointError(str(file_, ": the safetensors header ", what, " (header byte ", at_, ")"));
}

char JsonReader::peek() {
  while (at_ < json_.size() && std::strchr(" \t\r\n", json_[at_]) != nullptr && json_[at_] != '\0') ++at_;
  return at_ < json_.size() ? json_[at_] : '\0';
}

void JsonReader::expect(char wanted) {
  if (peek() != wanted || at_ == json_.size()) {
    fail(str("is not JSON of the expected form: '", wanted, "' should be ",
             at_ == json_.size() ? "at its end" : "here"));
  }
  ++at_;
}

bool JsonReader::more(char closing) {
  if (peek() == ',') {
    ++at_;
    return true;
  }
  expect(closing);
  return false;
}

unsigned JsonReader::hex4() {
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

void JsonReader::escape(std::string* out) {
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

std::string JsonReader::string() {
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

uint64_t JsonReader::natural(const std::string& of) {
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

std::vector<uint64_t> JsonReader::naturals(const std::string& of) {
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

void JsonReader::end() {
  if (peek() != '\0' || at_ < json_.size()) fail("has something after its closing brace");
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
