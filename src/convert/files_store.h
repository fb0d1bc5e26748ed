#pragma once

// Raw files as a Store, for prediction. Each file is decoded when it is read, exactly as `dtrain
// convert` would store it. The network's task determines the kind of file:
//   classify, headpose: JPEG, PNG or WebP, as stored_photo() makes them, with side `stored_size` or
//     else `image_size`
//   headpose with a layout: pictures of a published set, cropped to the head as by its converter
//   sequence: .npy, as sequence_rows() reads them, with `features` features
//   pointer: .npz, see pointer_file.h; each set is a sample, FILE.npz#i, and `order` is ignored if
//     there are lengths
// Targets are unknown: they are -1 (classes, orders) or NaN (angles).
//
// A file that cannot be used is one bad sample and does not affect the others: read_input() throws
// DataError with its name and the reason. The lengths of sequences are read from the headers when
// the files are opened.
// Thread-safety: as Store.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/store.h"

namespace dtrain::convert {

// The extensions of a network's raw files, for list_files(). `metadata` is that of its checkpoint.
std::vector<std::string> raw_extensions(const std::map<std::string, std::string>& metadata);

// The published head-pose sets whose pictures can be cropped: 300wlp, aflw2000, biwi.
const std::vector<std::string>& head_layouts();

// Opens `files`, as returned by list_files(). `metadata` is that of the network's checkpoint (task,
// stored_size or image_size, features). `layout`: one of head_layouts(), for task headpose alone;
// "": none. Throws DataError if there are no files, if one is missing or is an HDF5 file, or if the
// metadata lack a value. A link that leads nowhere is a file that cannot be used.
std::unique_ptr<data::Store> open_files(const std::map<std::string, std::string>& metadata,
                                        const std::vector<std::string>& files,
                                        const std::string& layout = "");

}  // namespace dtrain::convert
