#pragma once

// Samples that cannot be learned from, by what the SampleSpec asks of them: looked for in the whole file before a run
// begins (check_samples()), or one by one by the loader, where it is to leave them out.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/error.h"
#include "data/sample_spec.h"
#include "data/store.h"

namespace dtrain::data {

// What is wrong with an order of `elements` elements; "" if it is a permutation of 0 to elements - 1.
std::string order_defect(std::span<const int64_t> order, int64_t elements);

// What is wrong with the target of a sample of `rows` rows, as stored; "" if nothing is.
std::string target_defect(const SampleSpec&, Element, std::span<const std::byte> target, int64_t rows);

// What is wrong with the number of rows of a sample; "" if nothing is, as with images. Reads only the index.
std::string length_defect(const Store&, const SampleSpec&, int64_t id);

// More rows than the network takes: such a sample is never read.
bool too_long(const Store&, const SampleSpec&, int64_t id);

// "FILE#7: WHAT (SOURCE)", and, where the run ends with it, what to do.
std::string bad_sample(const Store&, int64_t id, const std::string& what, bool skip_bad);

// DataError naming the first sample of the file whose length or target has a defect. Reads all targets.
void check_samples(const Store&, const SampleSpec&);

}  // namespace dtrain::data
