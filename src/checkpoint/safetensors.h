#pragma once

// The safetensors format: named tensors and text metadata in one file that Python opens, and no
// code in it. Reading checks every offset against the file and throws CheckpointError for a header
// that is truncated, overlapping or wrong in any other way. Thread-safety: pure functions.

#include <torch/types.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dtrain::checkpoint {

// CPU tensors in the order of writing
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
using Metadata = std::map<std::string, std::string>;

struct TensorFile {
  NamedTensors tensors;
  Metadata metadata;
};

bool can_hold(at::ScalarType);  // whether the format has this type

// The file's bytes. Tensors may be on any device and in any layout; they are stored in C order.
// Throws Error for a type that the format does not have and for a name that is there twice.
std::vector<std::byte> to_safetensors(const NamedTensors&, const Metadata& = {});

// `name` is for messages
TensorFile from_safetensors(std::span<const std::byte> bytes, const std::string& name);
TensorFile read_safetensors(const std::filesystem::path&);

}  // namespace dtrain::checkpoint
