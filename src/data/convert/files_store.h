#pragma once

// Raw files as a Store, for prediction: each is decoded when it is read, exactly as `dtrain convert` would store it.
// What a file must be follows from the network's task:
//   pictures (classify, headpose): JPEG or PNG, as in photo.h, at metadata `stored_size`, else `image_size`
//   sequence: .npy, as in sequence_rows.h, with metadata `features` features
//   pointer: .npz, as in pointer_file.h; each set is a sample, FILE.npz#i; `order` is not looked at
// Nobody knows the targets: they read as -1 (classes, orders) or NaN (angles).
//
// A file that cannot be used is one bad sample, not the end of the rest: read_input() throws DataError with its name
// and the reason. The lengths of sequences are read from their headers when the files are opened. Thread-safety: as
// Store.

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/store.h"

namespace dtrain::data {

// `metadata`: of the network's checkpoint (task, stored_size or image_size, features). `paths`: files, folders (all
// files in them, however deep, with the right extension, in the order of their names) and globs (*, ?, []), one after
// the other. Throws DataError: nothing there, no file of the right kind in a folder, an HDF5 file among them, metadata
// that do not say what is needed.
std::unique_ptr<Store> open_files(const std::map<std::string, std::string>& metadata,
                                  const std::vector<std::string>& paths);

// The files that `paths` stand for; `extensions` (with dot, lower case) choose those of folders.
std::vector<std::filesystem::path> list_files(const std::vector<std::string>& paths,
                                              const std::vector<std::string>& extensions);

}  // namespace dtrain::data
