#include "core/library_text.h"

#include "core/number_text.h"
#include "core/strings.h"

namespace dtrain {
namespace {

// The text between the first `begin` and the next `end`; "" if there is none.
std::string_view between(std::string_view text, std::string_view begin, std::string_view end) {
  const size_t from = text.find(begin);
  if (from == std::string_view::npos) return {};
  const std::string_view rest = text.substr(from + begin.size());
  const size_t to = rest.find(end);
  return to == std::string_view::npos ? std::string_view() : rest.substr(0, to);
}

// "The following operation failed in the TorchScript interpreter.", lines of code, then "RuntimeError: " with the
// operator's message, or what a `raise` of the script says. From there on; all of a text that is not of this kind.
std::string_view reason_in_script(std::string_view what) {
  if (!what.starts_with("The following operation failed")) return what;
  constexpr std::string_view kError = "\nRuntimeError: ";
  if (const size_t at = what.rfind(kError); at != std::string_view::npos) return what.substr(at + kError.size());
  const size_t end = what.find_last_not_of(" \n");
  const size_t before = what.find_last_of('\n', end);
  return before == std::string_view::npos ? what : what.substr(before + 1);
}

}  // namespace

// "[json.exception.parse_error.101] parse error at line 1, column 9: syntax error while parsing ...",
// "[json.exception.out_of_range.403] key 'step' not found", "[json.exception.type_error.302] type must be ...".
std::string json_defect(std::string_view what) {
  if (const std::string_view key = between(what, "key '", "' not found"); !key.empty()) {
    return str("there is no '", key, "'");
  }
  if (what.find("type_error") != std::string_view::npos) return "a value has another type than it must have";
  const std::string_view place = between(what, "parse error at ", ":");
  return str("not valid JSON", place.empty() ? "" : " at ", place);
}

std::string torch_message(std::string_view what) {
  what = reason_in_script(what);
  what = what.substr(0, what.find('\n'));
  if (const size_t end = what.find(". "); what.starts_with("[enforce fail at ") && end != std::string_view::npos) {
    what.remove_prefix(end + 2);
  }
  return std::string(trimmed(what));
}

std::optional<double> out_of_host_memory(std::string_view what) {
  if (what.find("DefaultCPUAllocator: ") == std::string_view::npos) return std::nullopt;
  const std::string_view bytes = between(what, "tried to allocate ", " bytes");
  return parse_number<double>(bytes).value_or(0);
}

// "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of ..."
double bytes_out_of_device_memory(std::string_view what) {
  const std::string_view size = between(what, "Tried to allocate ", "iB");
  if (size.size() < 3) return 0;
  const double number = parse_number<double>(trimmed(size.substr(0, size.size() - 1))).value_or(0);
  switch (size.back()) {
    case 'K':
      return number * 1024;
    case 'M':
      return number * 1024 * 1024;
    case 'G':
      return number * 1024 * 1024 * 1024;
    default:
      return 0;
  }
}

}  // namespace dtrain
