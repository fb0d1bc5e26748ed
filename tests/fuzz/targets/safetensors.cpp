#include <algorithm>
#include <span>

#include "checkpoint/safetensors_header.h"
#include "core/error.h"
#include "fuzz/target.h"

namespace {

std::string file(const std::string& json, size_t data_bytes) {
  const uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + json +
         std::string(data_bytes, 'x');
}

}  // namespace

std::vector<std::string> dtrain::testing::example_inputs() {
  return {file(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"I64",)"
               R"("shape":[],"data_offsets":[24,32]}})",
               32),
          file(R"({"__metadata__":{"task":"headpose","names":"a\nb\u00e9\ud83d\ude00"},)"
               R"("w":{"dtype":"BF16","shape":[0],"data_offsets":[0,0]}}  )",
               0),
          file("{}", 0)};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto first8 = std::as_bytes(std::span(data, std::min<size_t>(size, 8)));
    const uint64_t length = dtrain::checkpoint::header_length(first8, size, "fuzz.safetensors");
    dtrain::checkpoint::parse_header(bytes.substr(8, length), size - 8 - length,
                                     "fuzz.safetensors");
  } catch (const dtrain::CheckpointError&) {
  }
  return 0;
}
