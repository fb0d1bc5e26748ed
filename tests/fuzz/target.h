#pragma once

// A fuzz target: one reader of untrusted bytes, as libFuzzer calls it (targets/NAME.cpp defines
// both functions). It returns if the bytes are read or refused with the error that its callers
// expect. Anything else ends the process.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace dtrain::testing {

std::vector<std::string> example_inputs();  // valid ones, to begin with

// For readers that take a path: a file in memory with these bytes. Its path is the same in
// each call.
std::string in_memory_file(const uint8_t* data, size_t size);

}  // namespace dtrain::testing
