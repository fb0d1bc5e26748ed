#pragma once

// The root attributes of a data file as values, and the checksum that covers them. They say what
// the samples mean (the task, the names of the classes, the unit of the targets), so a change of
// them is as bad as a change of a sample. Thread-safety: pure functions.

#include <cstdint>
#include <map>
#include <string>
#include <variant>

namespace dtrain::data {

using Attribute = std::variant<std::string, int64_t, uint64_t, double>;
using Attributes = std::map<std::string, Attribute>;

std::string text_of(const Attribute&);  // text as it is, a number in decimal

inline constexpr const char* kAttributesChecksum = "attributes_checksum";

// Chained xxh64 (the first seed is 0, each result seeds the next) of each attribute but
// attributes_checksum itself, sorted by name: the name; the word text, int64, uint64 or float64;
// the value (text: its bytes, numbers: 8 bytes, little endian). A number is first converted to the
// widest type of its kind.
uint64_t attributes_checksum(const Attributes&);

}  // namespace dtrain::data
