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

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/store.h"

namespace dtrain::convert {

// How the names of the raw files of a network end, for list_files(). `metadata`: of its checkpoint.
std::vector<std::string> raw_extensions(const std::map<std::string, std::string>& metadata);

// `metadata`: of the network's checkpoint (task, stored_size or image_size, features). `files`: as list_files() gives
// them. Throws DataError: no files, one that is not there or is an HDF5 file, metadata that do not say what is needed.
std::unique_ptr<data::Store> open_files(const std::map<std::string, std::string>& metadata,
                                        const std::vector<std::string>& files);

}  // namespace dtrain::convert
