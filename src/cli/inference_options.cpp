#include "cli/inference_options.h"
#include "data/order/splits.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace dtrain::cli {

int default_reader_threads(int cores) { return std::clamp(cores / 2, 1, 8); }

const std::vector<int64_t>& split_ids(const data::Splits& splits, const std::string& split) {
  return split == "train" ? splits.train : split == "val" ? splits.val : splits.test;
}

void InferenceOptions::add_to(CLI::App& app) {
  app.add_option("--batch-size", batch_size, "samples per rank and forward pass")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--workers", workers, "reader threads per rank; 0: from the cores of the rank")
      ->check(CLI::Range(0, 1024));
  app.add_option("--amp", amp, "fp32, tf32, bf16, fp16 or auto")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16", "auto", "off"}))
      ->capture_default_str();
  app.add_option("--device", device, "auto, cuda or cpu")
      ->check(CLI::IsMember({"auto", "cuda", "cpu"}))
      ->capture_default_str();
  app.add_option("--module", module_file, "task module: the TorchScript file, if it is not where it was");
}

int InferenceOptions::threads(int cores) const {
  return workers > 0 ? static_cast<int>(workers) : default_reader_threads(cores);
}

}  // namespace dtrain::cli
