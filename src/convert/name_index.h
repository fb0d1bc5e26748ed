#pragma once

// Finds samples by name, with or without the extension of their file; elements of an array by their
// name alone. A name in Unicode's NFC also finds a sample whose name is not, because a list and the
// names of files may come from different systems. Requires: the list outlives the index.
// Thread-safety: const methods may be called from any thread.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "convert/index_table.h"
#include "convert/sample_list.h"

namespace dtrain::convert {

class NameIndex {
 public:
  explicit NameIndex(const SampleList&);

  struct Found {
    uint32_t sample = 0;
    bool ambiguous = false;  // two samples differ only in their extensions
  };
  // A sample of this name, or else one that has it without its extension.
  std::optional<Found> find(const std::string& name) const;

 private:
  std::optional<Found> find_element(const std::string& name) const;
  std::optional<Found> find_as_it_is(const std::string& name) const;
  void add_composed(uint32_t sample);

  const SampleList& samples_;
  IndexTable by_name_, by_stem_;
  std::vector<bool> ambiguous_;            // indexed by the sample in by_stem_
  std::map<std::string, Found> composed_;  // names in NFC of samples whose names are not
};

std::string without_extension(const std::string& name);

}  // namespace dtrain::convert
