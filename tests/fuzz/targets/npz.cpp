#include "formats/npz.h"
#include "core/error.h"
#include "fuzz/target.h"
#include "os/file_system.h"
#include "support/temp_dir.h"

std::vector<std::string> dtrain::testing::example_inputs() {
  const TempDir folder;
  const std::vector<float> features{1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> lengths{2, 1};
  formats::write_npz(folder / "a.npz", {{"features", formats::to_npy(features, {2, 3})},
                                        {"lengths", formats::to_npy(lengths, {2})}});
  return {read_text(folder / "a.npz")};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const dtrain::formats::NpzFile file(dtrain::testing::in_memory_file(data, size));
    for (const std::string& name : file.names()) {
      if (const auto array = file.read(name)) array->to_float32();
    }
  } catch (const dtrain::DataError&) {
  }
  return 0;
}
