#include "config/load.h"
#include "config/print.h"
#include "core/error.h"
#include "fuzz/target.h"

std::vector<std::string> dtrain::testing::example_inputs() {
  std::vector<std::string> inputs{
      "train: {epochs: 3, global_batch: 64}\naugment:\n  hflip: false\n", "# nothing\n",
      "data: &a {file: x.h5}\nrun: {name: \"a\\tb\"}\n", config::to_yaml(config::Config{})};
  for (const char* name : {"quickstart", "headpose_300wlp"}) {
    if (const auto text = config::embedded(name)) inputs.emplace_back(*text);
  }
  return inputs;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto config =
        dtrain::config::from_yaml({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
    dtrain::config::to_yaml(config);
  } catch (const dtrain::ConfigError&) {
  }
  return 0;
}
