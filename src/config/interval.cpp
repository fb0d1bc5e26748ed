#include "config/interval.h"

#include <charconv>
#include <cmath>
#include <vector>

#include "config/table.h"
#include "core/number_text.h"
#include "core/strings.h"

namespace dtrain::config {
namespace {

constexpr const char* kForms = "500s (steps), 2e (epochs), 10m (minutes), several separated by commas, or never";

// The whole of `text` as a decimal number above 0 without sign, exponent or leading zeros.
template <typename Number>
bool parse_count(std::string_view text, Number& value) {
  const bool zeros = text.size() > 1 && text[0] == '0' && text[1] != '.';
  if (text.empty() || text[0] < '0' || text[0] > '9' || zeros || text.find_first_of("eE") != std::string_view::npos) {
    return false;
  }
  value = parse_number<Number>(text).value_or(0);
  return value > 0;
}

}  // namespace

std::string parse_interval(std::string_view text, Interval& interval) {
  Interval parsed;
  const auto refuse = [&](const std::string& why) { return str(in_quotes(text), " ", why, "; expected: ", kForms); };
  if (text == "never") {
    interval = parsed;
    return "";
  }
  for (const std::string& joined : split(text, ',')) {
    const std::string_view part = trimmed(joined);
    if (part.empty()) return refuse("has an empty part");
    const char last = part.back();
    const bool has_unit = last == 's' || last == 'e' || last == 'm';
    const std::string_view number = part.substr(0, part.size() - (has_unit ? 1 : 0));
    const bool again = last == 'm' ? parsed.minutes > 0 : last == 'e' ? parsed.epochs > 0 : parsed.steps > 0;
    if (again) return refuse("names a unit twice");
    bool good = false;
    if (last == 'm') {
      good = parse_count(number, parsed.minutes) && parsed.minutes <= 1e6;
    } else {
      int64_t& count = last == 'e' ? parsed.epochs : parsed.steps;
      good = parse_count(number, count) && count <= 1'000'000'000;
    }
    if (!good) return refuse("is not an interval");
  }
  interval = parsed;
  return "";
}

std::string to_string(const Interval& interval) {
  std::vector<std::string> parts;
  if (interval.steps > 0) parts.push_back(str(interval.steps, "s"));
  if (interval.epochs > 0) parts.push_back(str(interval.epochs, "e"));
  if (interval.minutes > 0) {
    char digits[512];  // without an exponent, the smallest number takes about 330
    parts.push_back(
        std::string(digits,
                    std::to_chars(digits, digits + sizeof digits, interval.minutes, std::chars_format::fixed).ptr) +
        "m");
  }
  return parts.empty() ? "never" : join(parts, ",");
}

}  // namespace dtrain::config
