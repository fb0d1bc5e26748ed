#include "report/html_text.h"

#include <openssl/evp.h>

#include <array>

#include "core/check.h"
#include "core/printable.h"
#include "core/strings.h"

namespace dtrain::report {
namespace {

// U+061C, U+200E, U+200F, U+202A to U+202E and U+2066 to U+2069 reorder what is shown beside them.
bool reorders(std::string_view character) {
  constexpr std::array<std::string_view, 12> kMarks = {"\u061c", "\u200e", "\u200f", "\u202a", "\u202b", "\u202c",
                                                       "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"};
  for (const std::string_view mark : kMarks) {
    if (mark == character) return true;
  }
  return false;
}

std::string_view entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return "";
  }
}

}  // namespace

std::string html_text(std::string_view text) {
  const std::string safe = printable(text);
  std::string out;
  for (std::string_view rest = safe; !rest.empty();) {
    const std::string_view character = rest.substr(0, printable_character(rest));
    const std::string_view escaped = character.size() == 1 ? entity(character[0]) : "";
    if (reorders(character)) {
      out += "\ufffd";
    } else {
      out += escaped.empty() ? character : escaped;
    }
    rest.remove_prefix(character.size());
  }
  return out;
}

std::string script_json(std::string_view json) {
  std::string out;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    const std::string_view next = json.substr(i, 3);
    if (c == '<' || c == '>' || c == '&') {
      out += c == '<' ? "\\u003c" : c == '>' ? "\\u003e" : "\\u0026";
    } else if (next == "\u2028" || next == "\u2029") {
      out += next == "\u2028" ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      out += c;
    }
  }
  return out;
}

std::string data_uri(std::string_view media_type, std::span<const std::byte> bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int written =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  DTRAIN_CHECK(written >= 0, "no base64 of ", bytes.size(), " bytes");
  text.resize(static_cast<size_t>(written));
  return str("data:", media_type, ";base64,", text);
}

}  // namespace dtrain::report
