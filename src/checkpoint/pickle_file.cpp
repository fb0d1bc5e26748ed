#include "checkpoint/pickle_file.h"

#include <array>
#include <fstream>

#include "text/strings.h"

namespace dtrain::checkpoint {
namespace {

// A Python string literal.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace

Pickle pickle_of(std::span<const std::byte> beginning) {
  const auto byte = [&](size_t i) {
    return i < beginning.size() ? std::to_integer<int>(beginning[i]) : -1;
  };
  if (byte(0) == 'P' && byte(1) == 'K' && byte(2) == 3 && byte(3) == 4) return Pickle::kZip;
  // Protocol 2 to 5, and then an opcode and a number that is not small: as the length of a
  // safetensors header it would be more than 2^40 bytes.
  return byte(0) == 0x80 && byte(1) >= 2 && byte(1) <= 5 && byte(5) > 0 ? Pickle::kPlain
                                                                        : Pickle::kNone;
}

Pickle pickle_of(const std::filesystem::path& file) {
  std::array<char, 8> bytes{};
  std::ifstream in(file, std::ios::binary);
  in.read(bytes.data(), bytes.size());
  return pickle_of(std::as_bytes(std::span(bytes)).first(static_cast<size_t>(in.gcount())));
}

std::string pickle_advice(const std::string& file) {
  std::filesystem::path place = std::filesystem::path(file).replace_extension(".safetensors");
  if (place == file)
    place.replace_extension(".converted.safetensors");  // its name is wrong; keep the file
  const std::string converted = place.string();
  return str(file,
             " is a file of torch.save (or TorchScript): pickle, and loading that runs code. "
             "Convert its weights in ",
             "Python and give the result instead:\n  import torch, safetensors.torch as s\n",
             "  s.save_file({k: v.contiguous() for k, v in torch.load(", quoted(file),
             ", map_location=\"cpu\", ", "weights_only=True).items()}, ", quoted(converted), ")");
}

}  // namespace dtrain::checkpoint
