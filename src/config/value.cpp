// Values as text: strict parsing, printing that restores every bit, and the words for ranges.

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "config/plain_text.h"
#include "config/table.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::config {
namespace {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;  // clang 14 does not deduce it

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Number of digits at the start of `text`.
size_t digits(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && is_digit(text[n])) ++n;
  return n;
}

bool has_leading_zero(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && is_digit(text[1]);
}

bool is_whole(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && digits(text) == text.size();
}

// -?(digits)(.digits)?(e[+-]?digits)?, with digits before or after the point.
bool is_decimal(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const size_t before = digits(text);
  text.remove_prefix(before);
  size_t after = 0;
  if (text.starts_with('.')) {
    after = digits(text.substr(1));
    if (after == 0) return false;
    text.remove_prefix(1 + after);
  }
  if (before + after == 0) return false;
  if (text.empty()) return true;
  if (text[0] != 'e' && text[0] != 'E') return false;
  text.remove_prefix(1);
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && digits(text) == text.size();
}

bool contains(const NumberRange& range, double value) {
  const bool above = range.low_open ? value > range.low : value >= range.low;
  const bool below = range.high_open ? value < range.high : value <= range.high;
  return above && below;
}

template <typename Number>
std::string assign_number(const Option& option, std::string_view text, Number* target) {
  constexpr bool kWhole = !std::is_same_v<Number, double>;
  if (!(kWhole ? is_whole(text) : is_decimal(text))) {
    return str(in_quotes(text), " is not a ", kWhole ? "whole number" : "number");
  }
  if (has_leading_zero(text))
    return str(in_quotes(text), " has leading zeros: numbers are decimal");
  const std::optional<Number> value = parse_number<Number>(text);
  // A whole number without a value here is below every bound, and a negative one below 0
  const bool below = text.starts_with('-') && (kWhole || option.range.low >= 0);
  if (!value && !below) {
    const bool tiny = !kWhole && std::abs(std::strtod(std::string(text).c_str(), nullptr)) < 1;
    return str(text.substr(0, 40),
               tiny ? " is too close to 0 for a number of 64 bits" : " does not fit into 64 bits");
  }
  if (!value || !contains(option.range, static_cast<double>(*value))) {
    return str(text.substr(0, 40), " is out of range: ", range_text(option));
  }
  *target = *value;
  return "";
}

std::string assign_bool(std::string_view text, bool* target) {
  if (text != "true" && text != "false") return str(in_quotes(text), " is not true or false");
  *target = text == "true";
  return "";
}

bool is_plain_text(std::string_view text) {
  while (!text.empty()) {
    const size_t length = plain_character(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string assign_choice(const Option& option, std::string_view text, const Choice& choice) {
  for (const auto& [name, meaning] : option.synonyms) {
    if (text == name) text = meaning;
  }
  if (choice.set(text)) return "";
  const std::vector<std::string> names = choice.names();
  const std::string near = text.size() > 64 ? "" : nearest(text, names);
  return str(in_quotes(text), " is not one of ", join(names, ", "),
             near.empty() ? "" : "; did you mean '" + near + "'?");
}

std::string assign_text(std::string_view text, std::string* target) {
  if (!is_plain_text(text)) return str(in_quotes(text), " has control characters or is not UTF-8");
  *target = std::string(text);
  return "";
}

}  // namespace

std::vector<std::string> Option::names() const {
  std::vector<std::string> names;
  for (const std::string& name : {alias, path, also}) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

bool Choice::set(std::string_view name) const {
  const std::vector<std::string> all = names();
  const auto found = std::find(all.begin(), all.end(), name);
  if (found == all.end()) return false;
  write_(field_, static_cast<size_t>(found - all.begin()));
  return true;
}

std::string assign(const Option& option, std::string_view text, IntervalUnits units) {
  return std::visit(Overloaded{
                        [&](bool* target) { return assign_bool(text, target); },
                        [&](std::string* target) { return assign_text(text, target); },
                        [&](const Choice& choice) { return assign_choice(option, text, choice); },
                        [&](Interval* target) { return parse_interval(text, *target, units); },
                        [&](WarmUp* target) { return parse_warm_up(text, *target); },
                        [&](auto* target) { return assign_number(option, text, target); },
                    },
                    option.target);
}

std::string value_text(const Option& option) {
  return std::visit(Overloaded{
                        [](bool* value) { return std::string(*value ? "true" : "false"); },
                        [](std::string* value) { return *value; },
                        [](const Choice& choice) { return choice.name(); },
                        [](double* value) { return shortest(*value); },
                        [](Interval* value) { return to_string(*value); },
                        [](WarmUp* value) { return to_string(*value); },
                        [](auto* value) { return std::to_string(*value); },
                    },
                    option.target);
}

std::string value_kind(const Option& option) {
  if (is_bool(option)) return "true | false";
  if (std::holds_alternative<double*>(option.target)) return "number";
  if (is_interval(option)) return "interval";
  if (is_warm_up(option)) return "warm-up";
  if (!is_text(option)) return "whole number";
  const auto* choice = std::get_if<Choice>(&option.target);
  if (choice == nullptr) return "text";
  std::vector<std::string> names = choice->names();
  for (const auto& [name, meaning] : option.synonyms) names.push_back(name);
  return join(names, " | ");
}

std::string range_text(const Option& option) {
  const NumberRange& range = option.range;
  const bool has_low = std::isfinite(range.low), has_high = std::isfinite(range.high);
  // Large bounds are whole numbers, which are easier to read without an exponent.
  const auto bound = [](double value) {
    return std::abs(value) >= 1e5 ? fixed(value, 0) : shortest(value);
  };
  if (has_low && has_high && !range.low_open && !range.high_open)
    return str(bound(range.low), " to ", bound(range.high));
  std::string text;
  if (has_low) text = range.low_open ? "above " + bound(range.low) : bound(range.low) + " or more";
  if (has_high)
    text += str(has_low ? ", " : "", range.high_open ? "below " : "up to ", bound(range.high));
  return text;
}

bool is_text(const Option& option) {
  return std::holds_alternative<std::string*>(option.target) ||
         std::holds_alternative<Choice>(option.target);
}
bool is_interval(const Option& option) { return std::holds_alternative<Interval*>(option.target); }
bool is_warm_up(const Option& option) { return std::holds_alternative<WarmUp*>(option.target); }
bool is_bool(const Option& option) { return std::holds_alternative<bool*>(option.target); }
bool is_switch(const Option& option) {
  const auto* choice = std::get_if<Choice>(&option.target);
  return choice == nullptr ? is_bool(option) : std::ranges::count(choice->names(), "true") > 0;
}

}  // namespace dtrain::config
