#pragma once

// What the inputs on a command line stand for: files, folders, and patterns that no shell has expanded.

#include <filesystem>
#include <string>
#include <vector>

namespace dtrain::cli {

// In order: a folder gives all files below it with one of `extensions` (".jpg", in lower case; the file's may be in
// any) and no hidden ones, sorted; a pattern with * ? or [ ] (that is not itself the name of a file) its matches,
// sorted, each treated alike; anything else stays as it is, there or not: who reads it says what is wrong. Each file
// once, at its first place. DataError: a folder or pattern without any, a folder that cannot be read.
std::vector<std::string> expand_inputs(const std::vector<std::string>& inputs,
                                       const std::vector<std::string>& extensions);

// By its first bytes, or by its name (.h5, .hdf5) when it cannot be read.
bool is_hdf5(const std::filesystem::path& file);

}  // namespace dtrain::cli
