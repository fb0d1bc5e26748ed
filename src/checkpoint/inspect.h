#pragma once

// What `dtrain inspect` says about a checkpoint: one aligned line per fact. Headers only, no tensor is read.

#include <filesystem>
#include <string>

namespace dtrain::checkpoint {

// `path` is a checkpoint folder or one .safetensors file. `verify` compares every file of a folder with the manifest's
// SHA-256. Throws CheckpointError.
std::string inspect_checkpoint(const std::filesystem::path& path, bool verify);

}  // namespace dtrain::checkpoint
