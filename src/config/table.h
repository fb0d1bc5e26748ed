#pragma once

// An entry of the table of configuration keys (keys.h): what is said of a key, and how its value is
// read and printed.

#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/config.h"
#include "config/scope.h"

namespace dtrain::config {

// The numbers that a key accepts.
struct NumberRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;  // the bound itself is excluded
};

inline NumberRange at_least(double low) { return {.low = low}; }
inline NumberRange above(double low) { return {.low = low, .low_open = true}; }
// [low, high], [low, high), (low, high] and (low, high)
inline NumberRange between(double low, double high) { return {.low = low, .high = high}; }
inline NumberRange below(double low, double high) {
  return {.low = low, .high = high, .high_open = true};
}
inline NumberRange up_to(double low, double high) {
  return {.low = low, .high = high, .low_open = true};
}
inline NumberRange inside(double low, double high) {
  return {.low = low, .high = high, .low_open = true, .high_open = true};
}

// A field that is one of a few names (choices.h), whatever its type.
class Choice {
 public:
  template <NamedEnum E>
  Choice(E* field)
      : field_(field),
        names_([] {
          const auto& all = names_of(E{});
          return std::vector<std::string>(all.begin(), all.end());
        }),
        read_([](const void* from) { return static_cast<size_t>(*static_cast<const E*>(from)); }),
        write_([](void* to, size_t value) { *static_cast<E*>(to) = static_cast<E>(value); }) {}

  std::vector<std::string> names() const { return names_(); }
  std::string name() const { return names()[read_(field_)]; }
  bool set(std::string_view name) const;  // false, and nothing changes, if no value has this name

 private:
  void* field_;
  std::vector<std::string> (*names_)();
  size_t (*read_)(const void*);
  void (*write_)(void*, size_t);
};

using Target =
    std::variant<bool*, int64_t*, uint64_t*, double*, std::string*, Interval*, WarmUp*, Choice>;

// What is said of some keys only.
struct OptionDetails {
  // "lr": --lr; "": none. If it is the name of the section, `section: VALUE` sets the key too
  std::string alias = {};
  // A flag of the same meaning that is accepted and that no help lists; "": none
  std::string also = {};
  std::string unit = {};
  NumberRange range = {};
  // Other names that a choice accepts: name -> the name it stands for
  std::vector<std::pair<std::string, std::string>> synonyms = {};
  bool fixed = false;  // cannot change when a run is resumed
  Scope scope = {};    // the runs that it changes
};

struct Option : OptionDetails {
  Option(std::string key_path, Target field, std::string help, OptionDetails details = {})
      : OptionDetails(std::move(details)),
        path(std::move(key_path)),
        target(field),
        text(std::move(help)) {}

  std::string path;  // "optimizer.lr": section.key in YAML, --optimizer.lr as a flag
  Target target;     // the field of the Config passed to describe()
  std::string text;  // one line of help

  std::string section() const { return path.substr(0, path.rfind('.')); }
  std::string key() const { return path.substr(path.rfind('.') + 1); }
  // The names of its flag, without dashes: first the one of help and docs, then the others
  std::vector<std::string> names() const;
};

// Parses `text` strictly (decimal numbers, true | false, names as listed) and stores the value. If
// `text` is wrong, stores nothing and returns what is wrong with it; otherwise returns "".
std::string assign(const Option&, std::string_view text,
                   IntervalUnits units = IntervalUnits::kWords);
std::string value_text(const Option&);  // the current value; assign() restores it bit by bit
// "whole number", "number", "true | false", "interval", "warm-up", "text" or the names
std::string value_kind(const Option&);
std::string range_text(const Option&);  // "1 or more", "above 0, up to 1"; "" if there is none
bool is_text(const Option&);            // free text or a name
bool is_bool(const Option&);
bool is_switch(const Option&);  // true is one of its values: `--key` alone means it
bool is_interval(const Option&);
bool is_warm_up(const Option&);

}  // namespace dtrain::config
