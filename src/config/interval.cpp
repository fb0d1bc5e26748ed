#include "config/interval.h"

#include <variant>
#include <vector>

#include "config/count_text.h"
#include "config/plain_text.h"
#include "text/strings.h"

namespace dtrain::config {
namespace {

struct Unit {
  const char* word;
  const char* singular;  // "1step", "1epoch"
  std::variant<int64_t Interval::*, double Interval::*> field;
  double most;
  char letter;  // the unit in runs that were saved earlier; 0: none
};
constexpr Unit kUnits[] = {
    {"steps", "step", &Interval::steps, 1e9, 's'},
    {"epochs", "epoch", &Interval::epochs, 1e9, 'e'},
    {"min", "min", &Interval::minutes, 1e6, 'm'},
    {"sec", "sec", &Interval::seconds, 6e7, 0},
};

// What a letter alone could mean, and how to write it.
std::string two_readings(std::string_view part, std::string_view number, char letter) {
  const std::string quoted = in_quotes(part);
  switch (letter) {
    case 's':
      return str(quoted, " can be read as steps or as seconds: write ", number, "steps or ", number,
                 "sec");
    case 'e':
      return str(quoted, " can be read as epochs or as part of a number: write ", number, "epochs");
    default:
      return str(quoted, " can be read as minutes or as micro-steps: write ", number, "min");
  }
}

}  // namespace

std::string parse_interval(std::string_view text, Interval& interval, IntervalUnits units) {
  Interval parsed;
  const auto refuse = [&](const std::string& why) {
    return str(in_quotes(text), " ", why, "; expected: ", kIntervalForms,
               ", several separated by commas, or never");
  };
  if (text == "never") {
    interval = parsed;
    return "";
  }
  for (const std::string& joined : split(text, ',')) {
    const std::string_view part = trimmed(joined);
    if (part.empty()) return refuse("has an empty part");
    const std::string_view number =
        part.substr(0, std::min(part.find_first_not_of("0123456789."), part.size()));
    const std::string_view name = trimmed(part.substr(number.size()));
    const Unit* found = name.empty() ? &kUnits[0] : nullptr;
    for (const Unit& unit : kUnits) {
      const bool letter = unit.letter != 0 && name.size() == 1 && name[0] == unit.letter;
      if (name == unit.word || name == unit.singular) found = &unit;
      if (letter && units == IntervalUnits::kWordsAndLetters) found = &unit;
      if (letter && !number.empty() && found == nullptr)
        return two_readings(part, number, unit.letter);
    }
    if (found == nullptr) return refuse("is not an interval");
    const auto store = [&](auto field) {
      if (parsed.*field > 0) return "names a unit twice";
      return parse_count(number, found->most, parsed.*field) ? "" : "is not an interval";
    };
    if (const std::string wrong = std::visit(store, found->field); !wrong.empty())
      return refuse(wrong);
  }
  interval = parsed;
  return "";
}

std::string to_string(const Interval& interval) {
  std::vector<std::string> parts;
  for (const Unit& unit : kUnits) {
    const auto add = [&](auto field) {
      const auto value = interval.*field;
      if (value > 0)
        parts.push_back(all_digits(static_cast<double>(value)) +
                        (value == 1 ? unit.singular : unit.word));
    };
    std::visit(add, unit.field);
  }
  return parts.empty() ? "never" : join(parts, ",");
}

}  // namespace dtrain::config
