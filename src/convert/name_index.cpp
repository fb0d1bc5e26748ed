#include "convert/name_index.h"

#include <filesystem>

#include "core/hash.h"
#include "text/unicode.h"

namespace dtrain::convert {

std::string without_extension(const std::string& name) {
  return std::filesystem::path(name).replace_extension().generic_string();
}

NameIndex::NameIndex(const SampleList& samples) : samples_(samples) {
  if (samples.are_elements()) return;  // their names are computed
  ambiguous_.resize(samples.size());
  const auto stem_of = [&](uint32_t sample) { return without_extension(samples.name(sample)); };
  for (uint32_t sample = 0; sample < samples.size(); ++sample) {
    const std::string stem = stem_of(sample);
    if (const auto other =
            by_stem_.find(xxh64(stem), [&](uint32_t known) { return stem_of(known) == stem; }))
      ambiguous_[*other] = true;
    else
      by_stem_.insert(sample, [&](uint32_t known) { return xxh64(stem_of(known)); });
    by_name_.insert(sample, [&](uint32_t known) { return xxh64(samples.name(known)); });
  }
  for (uint32_t sample = 0; sample < samples.size(); ++sample) add_composed(sample);
}

// Names as they are come before those in NFC.
void NameIndex::add_composed(uint32_t sample) {
  const std::string name = samples_.name(sample), composed = nfc(name);
  if (composed == name) return;  // most names, which are ASCII
  for (const std::string& one : {composed, without_extension(composed)}) {
    if (find_as_it_is(one)) continue;
    const auto [found, fresh] = composed_.emplace(one, Found{.sample = sample});
    if (!fresh && found->second.sample != sample) found->second.ambiguous = true;
  }
}

// The name of the file itself may not be in NFC, as on macOS.
std::optional<NameIndex::Found> NameIndex::find_element(const std::string& name) const {
  std::optional<uint32_t> element = samples_.element_named(name);
  const size_t number = name.rfind('#');
  if (!element && number != std::string::npos && samples_.size() > 0) {
    const std::string first = samples_.name(0), file = first.substr(0, first.rfind('#'));
    if (nfc(file) == name.substr(0, number))
      element = samples_.element_named(file + name.substr(number));
  }
  return element ? std::optional(Found{.sample = *element}) : std::nullopt;
}

std::optional<NameIndex::Found> NameIndex::find(const std::string& name) const {
  if (samples_.are_elements()) return find_element(name);
  const std::optional<Found> found = find_as_it_is(name);
  if (found) return found;
  const auto composed = composed_.find(name);
  return composed == composed_.end() ? std::nullopt : std::optional(composed->second);
}

std::optional<NameIndex::Found> NameIndex::find_as_it_is(const std::string& name) const {
  const auto has_name = [&](uint32_t sample) { return samples_.name(sample) == name; };
  const std::optional<uint32_t> exact = by_name_.find(xxh64(name), has_name);
  if (exact) return Found{.sample = *exact};
  const auto has_stem = [&](uint32_t sample) {
    return without_extension(samples_.name(sample)) == name;
  };
  const std::optional<uint32_t> stem = by_stem_.find(xxh64(name), has_stem);
  if (!stem) return std::nullopt;
  return Found{.sample = *stem, .ambiguous = ambiguous_[*stem]};
}

}  // namespace dtrain::convert
