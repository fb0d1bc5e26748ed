#include "data/attributes.h"

#include <span>
#include <string_view>

#include "core/hash.h"
#include "text/number_text.h"

namespace dtrain::data {
namespace {

// In the order of the variant
constexpr std::string_view kTypeNames[] = {"text", "int64", "uint64", "float64"};

}  // namespace

std::string text_of(const Attribute& attribute) {
  if (const auto* text = std::get_if<std::string>(&attribute)) return *text;
  if (const auto* number = std::get_if<int64_t>(&attribute)) return shortest(*number);
  if (const auto* number = std::get_if<uint64_t>(&attribute)) return shortest(*number);
  return shortest(std::get<double>(attribute));
}

uint64_t attributes_checksum(const Attributes& attributes) {
  uint64_t hash = 0;
  for (const auto& [name, attribute] : attributes) {
    if (name == kAttributesChecksum) continue;
    hash = xxh64(name, hash);
    hash = xxh64(kTypeNames[attribute.index()], hash);
    if (const auto* text = std::get_if<std::string>(&attribute)) {
      hash = xxh64(*text, hash);
    } else if (const auto* number = std::get_if<int64_t>(&attribute)) {
      hash = xxh64(std::as_bytes(std::span(number, 1)), hash);
    } else if (const auto* word = std::get_if<uint64_t>(&attribute)) {
      hash = xxh64(std::as_bytes(std::span(word, 1)), hash);
    } else {
      hash = xxh64(std::as_bytes(std::span(std::get_if<double>(&attribute), 1)), hash);
    }
  }
  return hash;
}

}  // namespace dtrain::data
