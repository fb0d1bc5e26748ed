#include "catalog/gpus.h"

#include <algorithm>
#include <cmath>

#include "text/strings.h"

namespace dtrain::catalog {

const std::vector<Gpu>& gpus() {
  // Name, product, memory, capability, and what was measured. H100 and H200 are the SXM cards.
  static const std::vector<Gpu> all = {
      {"rtx3060", "RTX 3060", 11.8, 86}, {"rtx3080", "RTX 3080", 9.8, 86},
      {"rtx3090", "RTX 3090", 23.6, 86}, {"rtx4060", "RTX 4060", 7.8, 89},
      {"rtx4090", "RTX 4090", 23.6, 89}, {"t4", "T4", 14.6, 75},
      {"v100", "V100", 15.8, 70},        {"a100-40", "A100", 39.4, 80},
      {"a100-80", "A100", 79.2, 80},     {"h100", "H100", 79.1, 90},
      {"h200", "H200", 139.8, 90},
  };
  return all;
}

const Gpu* gpu_named(std::string_view name) {
  const auto found = std::ranges::find(gpus(), name, &Gpu::name);
  return found == gpus().end() ? nullptr : &*found;
}

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  for (const Gpu& gpu : gpus()) {
    if (gpu.is_supported()) names.emplace_back(gpu.name);
  }
  return names;
}

const Gpu* find_gpu(std::string_view driver_name, int64_t memory_bytes) {
  // "Tesla T4", "NVIDIA A100-SXM4-40GB", "NVIDIA H100 80GB HBM3"; "RTX 3080 Ti" is another card
  // than "RTX 3080".
  const auto names = [&](const Gpu& gpu) {
    const size_t at = driver_name.find(gpu.product);
    if (at == std::string_view::npos || (at > 0 && driver_name[at - 1] != ' ')) return false;
    const std::string_view rest = driver_name.substr(at + gpu.product.size());
    const bool other =
        rest.starts_with(" Ti") || rest.starts_with(" SUPER") || rest.starts_with(" Laptop");
    return rest.empty() || rest.front() == '-' || (rest.front() == ' ' && !other);
  };
  const Gpu* found = nullptr;
  const auto apart = [&](const Gpu& gpu) {
    return std::abs(static_cast<double>(gpu.memory_bytes() - memory_bytes));
  };
  for (const Gpu& gpu : gpus()) {
    if (names(gpu) && (found == nullptr || apart(gpu) < apart(*found))) found = &gpu;
  }
  return found;
}

std::string unsupported_gpu(const Gpu& gpu) {
  return str("the ", gpu.product, " has compute capability ", gpu.capability / 10, ".",
             gpu.capability % 10,
             ", for which CUDA 13 has no compiler, and dtrain has no build for CUDA 12: use a GPU "
             "of compute capability 7.5 or newer");
}

}  // namespace dtrain::catalog
