#pragma once

// The files of torch.save (.pth, .pt): pickle, which is code, so dtrain never loads them. They are
// recognized in order to say how to convert them. Pure functions.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace dtrain::checkpoint {

// What the first bytes of a file say: a zip archive, as torch.save has written since PyTorch 1.6
// and TorchScript files are, or plain pickle, as older versions of torch.save wrote.
enum class Pickle { kNone, kZip, kPlain };
Pickle pickle_of(std::span<const std::byte> beginning);
Pickle pickle_of(const std::filesystem::path& file);  // kNone as well if it cannot be read

// Why the file is refused, and the two lines of Python that write its weights as safetensors.
std::string pickle_advice(const std::string& file);

}  // namespace dtrain::checkpoint
