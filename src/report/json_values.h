#pragma once

// Values of JSON that others wrote: whatever is missing, of another type or out of range is a value
// that says so, never an exception. Included by .cpp files of this module alone. Thread-safety:
// pure functions.

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "report/run_records.h"
#include "text/utf8.h"

namespace dtrain::report {

using Json = nlohmann::ordered_json;

inline constexpr size_t kLongestName = 300, kLongestSentence = 2000;  // bytes

// A number, NaN otherwise. An infinite one is null with "inf" or "-inf" in KEY_text beside it.
inline double number_in(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::numeric_limits<double>::quiet_NaN();
  if (found->is_number()) return found->get<double>();
  const auto text = object.find(key + "_text");
  if (!found->is_null() || text == object.end()) return std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (*text == "inf") return kInfinity;
  return *text == "-inf" ? -kInfinity : std::numeric_limits<double>::quiet_NaN();
}

// A whole number from 0 to 2^53, `otherwise` if it is none.
inline int64_t count_in(const Json& object, const std::string& key, int64_t otherwise = 0) {
  const double value = number_in(object, key);
  return value >= 0 && value <= 9007199254740992.0 && value == std::floor(value)
             ? static_cast<int64_t>(value)
             : otherwise;
}

// UTF-8 of at most `most` bytes; "" if it is no text.
inline std::string text_of(const Json& value, size_t most = kLongestName) {
  if (!value.is_string()) return "";
  return std::string(utf8_beginning(value.get_ref<const std::string&>(), most));
}
inline std::string text_in(const Json& object, const std::string& key, size_t most = kLongestName) {
  const auto found = object.find(key);
  return found == object.end() ? "" : text_of(*found, most);
}

// The values of a record of kind `state`.
inline StateRecord state_in(const Json& json) {
  return {text_in(json, "state"), count_in(json, "exit_code"),
          text_in(json, "reason", kLongestSentence)};
}

// The member if it is an object or an array, as asked for; else an empty one.
inline const Json& object_in(const Json& object, const std::string& key) {
  static const Json kNone = Json::object();
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : kNone;
}
inline const Json& array_in(const Json& object, const std::string& key) {
  static const Json kNone = Json::array();
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : kNone;
}

}  // namespace dtrain::report
