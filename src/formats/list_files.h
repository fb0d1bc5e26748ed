#pragma once

// Which raw files the inputs on a command line stand for: files, folders, and patterns that no shell has expanded.

#include <filesystem>
#include <string>
#include <vector>

namespace dtrain::formats {

// In order: a folder gives all files below it with one of `extensions` (".jpg", in lower case; the file's may be in
// any) and nothing hidden, sorted (links to other folders are followed); a pattern with * ? or [ ] (that is not itself
// the name of a file) its matches, sorted, each treated alike; a file itself, whatever its name. Each file once, at its
// first place. DataError: a folder or pattern without any, a folder that cannot be read, a file that is not there.
std::vector<std::string> list_files(const std::vector<std::string>& inputs, const std::vector<std::string>& extensions);

// What lies in a folder itself, sorted. DataError: it cannot be read.
std::vector<std::filesystem::path> folder_entries(const std::filesystem::path& folder);

// Whether this is a link to a folder that it lies in, at any depth: following it would never end.
bool leads_back(const std::filesystem::path& link);

inline const std::vector<std::string> kPictureExtensions{".jpg", ".jpeg", ".png"}, kSequenceExtensions{".npy"};
// Whether the name ends in one of them, in any case.
bool has_extension(const std::filesystem::path& file, const std::vector<std::string>& extensions);

// By its first bytes, or by its name (.h5, .hdf5): then whoever opens it says what is wrong.
bool is_hdf5(const std::filesystem::path& file);

}  // namespace dtrain::formats
