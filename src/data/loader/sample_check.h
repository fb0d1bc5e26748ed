#pragma once

// Finds samples that cannot be used for training: those whose length or target violates the
// SampleSpec, and rows with values that are not finite. check_samples() checks a whole file before
// a run; the loader checks single samples if it has to leave bad ones out. Thread-safety: all
// functions may be called from any thread.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/error.h"
#include "data/sample_spec.h"
#include "data/store.h"

namespace dtrain::data {

// Each ..._defect() describes what is wrong, and is empty if nothing is.

// An order must be a permutation of 0 to elements - 1.
std::string order_defect(std::span<const int64_t> order, int64_t elements);

// The target, as stored, of a sample with `rows` rows.
std::string target_defect(const SampleSpec&, Element, std::span<const std::byte> target,
                          int64_t rows);

// The number of rows of a sample; never wrong for images. Reads only the index of the store.
std::string length_defect(const Store&, const SampleSpec&, int64_t id);

// Whether a sample has more rows than the network accepts. Such a sample is never read.
bool too_long(const Store&, const SampleSpec&, int64_t id);

// Whether all values are finite. Vectorized: this costs less than copying the values.
bool all_finite(std::span<const float>);
// Index of the first NaN or infinity; -1 if there is none
int64_t first_not_finite(std::span<const float>);

// The message for a bad sample, "FILE#7: WHAT (SOURCE)"; without skip_bad it also says what to do.
std::string bad_sample(const Store&, int64_t id, const std::string& what, bool skip_bad);

// Throws DataError if the samples are not RGB images.
void check_images(const Store&);

// Throws DataError that names the first sample whose length or target has a defect. Reads
// all targets.
void check_samples(const Store&, const SampleSpec&);

}  // namespace dtrain::data
