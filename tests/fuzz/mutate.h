#pragma once

// Damaged copies of files. Every mutant is a function of (bytes, seed, number), so that a failing
// one can be made again. Thread-safety: pure functions.

#include <cstdint>
#include <string>

namespace dtrain::testing {

std::string flip_bit(std::string bytes, uint64_t seed, uint64_t number);  // one bit, anywhere

// One to three changes of any kind: bits, bytes and words set to values that programs get wrong,
// blocks copied or zeroed, the end cut or extended.
std::string mutate(std::string bytes, uint64_t seed, uint64_t number);

// The same for an HDF5 file, aimed at its structure: the changes are where the library reads its
// metadata, addresses are replaced by those of other structures, and half of the mutants get the
// checksums that their changed metadata need, so that the library does not stop at a
// wrong checksum.
std::string mutate_hdf5(std::string bytes, uint64_t seed, uint64_t number);

}  // namespace dtrain::testing
