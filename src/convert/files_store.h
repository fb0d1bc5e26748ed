#pragma once

// Raw files as a Store, for prediction. Each file is decoded when it is read, exactly as `dtrain
// convert` would store it:
//   pictures: JPEG, PNG or WebP, as stored_photo() makes them, with side `stored_size` or else
//     `image_size`; with a layout, those of a published set, cropped as by its converter
//   sequences: .npy, as sequence_rows() reads them, with `features` features
//   sets: .npz, see pointer_file.h; each set is a sample, FILE.npz#i, and `order` is ignored if
//     there are lengths
// Targets are unknown: they are -1 (classes, orders) or NaN (numbers).
//
// A file that cannot be used is one bad sample and does not affect the others: read_input() throws
// DataError with its name and the reason. The lengths of sequences are read from the headers when
// the files are opened.
// Thread-safety: as Store.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "data/store.h"

namespace dtrain::convert {

// What a network takes: samples of its task, or of the kind that a network from a file takes.
struct RawSamples {
  const catalog::TaskEntry& task;
  catalog::SampleKind sample;
};

std::vector<std::string> raw_extensions(catalog::SampleKind);  // for list_files()

// Opens `files`, as returned by list_files(). `metadata` is that of the network's checkpoint
// (stored_size or image_size, features). `layout`: one of catalog::cropped_data_sets() that is for
// the task; "": none. Throws DataError if there are no files, if one is missing or is an HDF5 file,
// or if the metadata lack a value. A link that leads nowhere is a file that cannot be used.
std::unique_ptr<data::Store> open_files(const RawSamples&,
                                        const std::map<std::string, std::string>& metadata,
                                        const std::vector<std::string>& files,
                                        const std::string& layout = "");

}  // namespace dtrain::convert
