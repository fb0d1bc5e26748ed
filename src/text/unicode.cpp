#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <iomanip>
#include <iterator>
#include <memory>
#include <sstream>
#include <utility>

#include "text/strings.h"
#include "text/utf8.h"

namespace dtrain {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

std::string mapped(std::string_view text, int options) {
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t bytes = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
      static_cast<utf8proc_ssize_t>(text.size()), &result, static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  if (bytes < 0) return std::string(text);
  return {reinterpret_cast<const char*>(result), static_cast<size_t>(bytes)};
}

uint32_t first_code_point(std::string_view character) {
  utf8proc_int32_t code = -1;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(character.data()),
                   static_cast<utf8proc_ssize_t>(character.size()), &code);
  return static_cast<uint32_t>(code);
}

// Greek, Cyrillic, a Turkish letter, dashes and quotes, with the ASCII character of the same shape.
constexpr std::pair<uint32_t, char> kShapes[] = {
    {0x0391, 'A'},  {0x0392, 'B'}, {0x0395, 'E'}, {0x0396, 'Z'}, {0x0397, 'H'}, {0x0399, 'I'},
    {0x039a, 'K'},  {0x039c, 'M'}, {0x039d, 'N'}, {0x039f, 'O'}, {0x03a1, 'P'}, {0x03a4, 'T'},
    {0x03a5, 'Y'},  {0x03a7, 'X'}, {0x03b1, 'a'}, {0x03bf, 'o'}, {0x03c1, 'p'}, {0x03bd, 'v'},
    {0x03b9, 'i'},  {0x03ba, 'k'}, {0x03c5, 'u'}, {0x03c7, 'x'}, {0x0410, 'A'}, {0x0412, 'B'},
    {0x0415, 'E'},  {0x041a, 'K'}, {0x041c, 'M'}, {0x041d, 'H'}, {0x041e, 'O'}, {0x0420, 'P'},
    {0x0421, 'C'},  {0x0422, 'T'}, {0x0425, 'X'}, {0x0406, 'I'}, {0x0408, 'J'}, {0x0405, 'S'},
    {0x0430, 'a'},  {0x0435, 'e'}, {0x043e, 'o'}, {0x0440, 'p'}, {0x0441, 'c'}, {0x0443, 'y'},
    {0x0445, 'x'},  {0x0456, 'i'}, {0x0458, 'j'}, {0x0455, 's'}, {0x043a, 'k'}, {0x0131, 'i'},
    {0x2010, '-'},  {0x2011, '-'}, {0x2012, '-'}, {0x2013, '-'}, {0x2014, '-'}, {0x2212, '-'},
    {0x2019, '\''}, {0x2018, '\''}};

char shape_of(uint32_t code) {
  const auto* found = std::find_if(std::begin(kShapes), std::end(kShapes),
                                   [&](const auto& one) { return one.first == code; });
  return found == std::end(kShapes) ? '\0' : found->second;
}

// What is left of a name to the eye.
std::string outline(std::string_view text) {
  const std::string plain = mapped(text, UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT |
                                             UTF8PROC_IGNORE | UTF8PROC_STRIPCC);
  std::string result;
  for (std::string_view rest = plain; !rest.empty();) {
    const size_t bytes = std::max<size_t>(utf8_character(rest), 1);
    const char shape = bytes == 1 ? rest[0] : shape_of(first_code_point(rest.substr(0, bytes)));
    if (shape == 0)
      result += rest.substr(0, bytes);
    else
      result += shape;
    rest.remove_prefix(bytes);
  }
  return join(words(result), " ");  // an unusual space is a space, and one more is not seen
}

}  // namespace

std::string nfc(std::string_view text) {
  return is_ascii(text) ? std::string(text) : mapped(text, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
}

size_t find_name(std::string_view name, std::span<const std::string> names) {
  const auto exact = std::find(names.begin(), names.end(), name);
  if (exact != names.end()) return static_cast<size_t>(exact - names.begin());
  const std::string wanted = nfc(name);
  const auto found = std::find_if(names.begin(), names.end(),
                                  [&](const std::string& one) { return nfc(one) == wanted; });
  return static_cast<size_t>(found - names.begin());
}

bool look_alike(std::string_view a, std::string_view b) {
  return a != b && outline(a) == outline(b);
}

std::string code_points(std::string_view text) {
  std::ostringstream out;
  for (; !text.empty(); text.remove_prefix(std::max<size_t>(utf8_character(text), 1))) {
    const size_t bytes = utf8_character(text);
    if (out.tellp() > 0) out << ' ';
    if (bytes == 0)
      out << "(byte " << static_cast<int>(static_cast<unsigned char>(text[0])) << ')';
    else
      out << "U+" << std::uppercase << std::hex << std::setfill('0') << std::setw(4)
          << first_code_point(text.substr(0, bytes)) << std::dec;
  }
  return out.str();
}

std::string look_alike_among(std::string_view name, std::span<const std::string> known) {
  for (const std::string& one : known) {
    if (!look_alike(name, one)) continue;
    return str(". It looks like ", one, ", but is ", code_points(name), " and not ",
               code_points(one));
  }
  return "";
}

}  // namespace dtrain
