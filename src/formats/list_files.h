#pragma once

// Finds raw files: expands the inputs of a command line (files, folders, and patterns that no shell
// has expanded).

#include <filesystem>
#include <string>
#include <vector>

#include "formats/tool_files.h"

namespace dtrain::formats {

// Expands each input, in order:
//   a folder: all files below it that have one of `extensions` (lower case; matches any case),
//     sorted, without those of tools (tool_files.h); links to other folders are followed
//   a pattern with * ? or [ ] that is not the name of a file: its matches, sorted, each taken like
//     an input; those of tools only if the pattern begins with a dot
//   a file: the file, whatever its name
// A file that occurs several times is listed once, at its first place. Throws DataError for a
// folder or pattern without files, a folder that cannot be read, and a missing file.
std::vector<std::string> list_files(const std::vector<std::string>& inputs,
                                    const std::vector<std::string>& extensions,
                                    ToolFiles& left_out);

// The entries of a folder, sorted, without those of tools. Throws DataError if it cannot be read.
std::vector<std::filesystem::path> folder_entries(const std::filesystem::path& folder,
                                                  ToolFiles& left_out);

// Whether this is a link to one of its own parent folders. Following such a link would never end.
bool leads_back(const std::filesystem::path& link);

inline const std::vector<std::string> kPictureExtensions{".jpg", ".jpeg", ".png", ".webp"},
    kSequenceExtensions{".npy"};
// Whether the name ends with one of `extensions`, ignoring case.
bool has_extension(const std::filesystem::path& file, const std::vector<std::string>& extensions);

// Whether this is an HDF5 file by its name (.h5, .hdf5) or its first bytes. Opening it reports what
// is wrong with it.
bool is_hdf5(const std::filesystem::path& file);

}  // namespace dtrain::formats
