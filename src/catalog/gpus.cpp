#include "catalog/gpus.h"

#include <algorithm>
#include <cmath>

#include "text/strings.h"

namespace dtrain::catalog {

const std::vector<Gpu>& gpus() {
  // H100 and H200 are the SXM cards; the PCIe H100 has 114 multiprocessors.
  static const std::vector<Gpu> all = {
      {.name = "rtx3060",
       .product = "RTX 3060",
       .memory_gib = 11.8,
       .multiprocessors = 28,
       .capability = 86},
      {.name = "rtx3080",
       .product = "RTX 3080",
       .memory_gib = 9.8,
       .multiprocessors = 68,
       .capability = 86},
      {.name = "rtx3090",
       .product = "RTX 3090",
       .memory_gib = 23.6,
       .multiprocessors = 82,
       .capability = 86},
      {.name = "rtx4060",
       .product = "RTX 4060",
       .memory_gib = 7.8,
       .multiprocessors = 24,
       .capability = 89},
      {.name = "rtx4090",
       .product = "RTX 4090",
       .memory_gib = 23.6,
       .multiprocessors = 128,
       .capability = 89},
      {.name = "t4", .product = "T4", .memory_gib = 14.6, .multiprocessors = 40, .capability = 75},
      {.name = "v100",
       .product = "V100",
       .memory_gib = 15.8,
       .multiprocessors = 80,
       .capability = 70},
      {.name = "a100-40",
       .product = "A100",
       .memory_gib = 39.4,
       .multiprocessors = 108,
       .capability = 80},
      {.name = "a100-80",
       .product = "A100",
       .memory_gib = 79.2,
       .multiprocessors = 108,
       .capability = 80},
      {.name = "h100",
       .product = "H100",
       .memory_gib = 79.1,
       .multiprocessors = 132,
       .capability = 90},
      {.name = "h200",
       .product = "H200",
       .memory_gib = 139.8,
       .multiprocessors = 132,
       .capability = 90},
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
             "of compute capability "
             "7.5 or newer");
}

}  // namespace dtrain::catalog
