#pragma once

// Keeps a command from writing over what it reads, over the raw data of a folder, over checkpoints,
// over the files that a run maintains, and over data sets. All commands ask protect() for each file
// that they write; --force does not change its answer.
//
// Paths are compared by the file that they lead to, so links and hard links are found too.
// Thread-safety: pure but for the file system.

#include <filesystem>
#include <functional>
#include <vector>

namespace dtrain {

// What a command reads.
struct Inputs {
  // Data, pictures, a TorchScript file, lists; missing ones are ignored
  std::vector<std::filesystem::path> files;
  // Folders of raw data, or a checkpoint: no file in them may be replaced
  std::vector<std::filesystem::path> folders;
};

// Whether an earlier command wrote the file. Such a file is no raw data, though it is in a folder
// of raw data.
using IsEarlierOutput = std::function<bool(const std::filesystem::path&)>;

// To be called before the work whose result goes to `out`, a file or folder that need not exist; ""
// is nothing. Throws OutputError if `out`
//   - is one of the inputs, or a folder that has one of them in it;
//   - is an existing file in one of the folders, unless it is an earlier output;
//   - is in a checkpoint or in the checkpoints of a run, or is a file that a run maintains;
//   - is an existing HDF5 file, as all data files of dtrain are.
void protect(const std::filesystem::path& out, const Inputs& inputs,
             const IsEarlierOutput& is_earlier_output = {});

// The same for a data file: it may replace another one, unless that is an input.
void protect_data_file(const std::filesystem::path& out, const Inputs& inputs,
                       const IsEarlierOutput& is_earlier_output = {});

// Whether the file begins as HDF5 files do. False for a file that cannot be read.
bool begins_as_hdf5(const std::filesystem::path& file);

// The same for the folder of a run, before anything is written there: OutputError if it is in a
// checkpoint, among the checkpoints of another run, or named as what another run maintains in
// its folder.
void protect_other_runs(const std::filesystem::path& folder);

}  // namespace dtrain
