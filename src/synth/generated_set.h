#pragma once

// The generated sets of the four tasks, as sets that a converter could have found: names, groups, classes and splits as
// in the raw layout, samples drawn when they are read. Functions of their arguments alone.

#include <memory>

#include "convert/raw_set.h"

namespace dtrain::synth {

std::unique_ptr<convert::RawSet> generated_heads(uint64_t seed, int64_t samples, int size);
std::unique_ptr<convert::RawSet> generated_scenes(uint64_t seed, int64_t samples, int size);
std::unique_ptr<convert::RawSet> generated_sequences(uint64_t seed, int64_t samples);
// `file`: what the names begin with (FILE.npz#i).
std::unique_ptr<convert::RawSet> generated_pointer_sets(uint64_t seed, int64_t samples, int64_t max_length,
                                                        const std::string& file);

}  // namespace dtrain::synth
