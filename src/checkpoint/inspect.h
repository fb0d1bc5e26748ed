#pragma once

// The text of `dtrain inspect` for a checkpoint, one aligned line per fact. It is made from headers; no tensor is read.

#include <filesystem>
#include <string>

namespace dtrain::checkpoint {

// `path` is the folder of a checkpoint or one .safetensors file. With `verify`, every file of a folder is compared with
// its SHA-256 in the manifest. Throws CheckpointError.
std::string inspect_checkpoint(const std::filesystem::path& path, bool verify);

}  // namespace dtrain::checkpoint
