#include <zlib.h>

#include <cstring>

#include "core/error.h"
#include "formats/mat_file.h"
#include "fuzz/target.h"
#include "os/file_system.h"
#include "support/temp_dir.h"

namespace {

// The same file with its variables as they are inside the compressed elements, where a mutant
// reaches each field.
std::string decompressed(const std::string& file) {
  constexpr size_t kHeader = 128, kTag = 8;
  std::string result = file.substr(0, kHeader);
  for (size_t at = kHeader; at + kTag <= file.size();) {
    uint32_t bytes = 0;
    std::memcpy(&bytes, file.data() + at + 4, sizeof bytes);
    std::string element(4096, '\0');
    uLongf size = element.size();
    uncompress(reinterpret_cast<Bytef*>(element.data()), &size,
               reinterpret_cast<const Bytef*>(file.data() + at + kTag), bytes);
    result += element.substr(0, size);
    at += kTag + bytes;
  }
  return result;
}

}  // namespace

std::vector<std::string> dtrain::testing::example_inputs() {
  const TempDir folder;
  formats::write_mat(folder / "a.mat",
                     {{"Pose_Para", {.rows = 1, .columns = 3, .values = {0.5, -0.25, 0.125}}},
                      {"pt2d", {.rows = 2, .columns = 3, .values = {1, 10, 2, 20, 3, 30}}}});
  const std::string file = read_text(folder / "a.mat");
  return {file, decompressed(file)};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    dtrain::formats::read_mat(dtrain::testing::in_memory_file(data, size),
                              {"Pose_Para", "pt2d", "pt3d_68"});
  } catch (const dtrain::DataError&) {
  }
  return 0;
}
