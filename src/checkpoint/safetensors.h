#pragma once

// The safetensors format: named tensors and text metadata in one file that Python opens, and no code in it.
// Reading checks every offset against the file: truncated, overlapping or lying headers throw CheckpointError.

#include <torch/torch.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dtrain::checkpoint {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;  // CPU tensors in the order of writing
using Metadata = std::map<std::string, std::string>;

struct TensorFile {
  NamedTensors tensors;
  Metadata metadata;
};

std::vector<std::byte> to_safetensors(const NamedTensors&, const Metadata& = {});  // any layout in, C order out
bool can_hold(at::ScalarType);
TensorFile from_safetensors(std::span<const std::byte> bytes, const std::string& name);
TensorFile read_safetensors(const std::filesystem::path&);

}  // namespace dtrain::checkpoint
