#include "cuda/gpus.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cuda/counts.h"
#include "cuda/settings.h"

namespace fake_gpu {
namespace {

constexpr std::array<const char*, kMostGpus> kNames = {"GPU 0", "GPU 1", "GPU 2", "GPU 3",
                                                       "GPU 4", "GPU 5", "GPU 6", "GPU 7"};
std::array<std::atomic<bool>, kMostGpus> contexts;
thread_local int gpu_of_thread = 0;

// The operators take the place of those of libtorch_cuda.so, once that is loaded.
void load_numbers() {
  static std::atomic<bool> loaded = false;
  const std::string& library = settings().numbers;
  if (loaded || library.empty() || ::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD) == nullptr)
    return;
  if (loaded.exchange(true)) return;
  if (::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
  std::fprintf(stderr, "fake GPU: %s\n", ::dlerror());
  std::abort();
}

}  // namespace

int visible_gpus() {
  const bool too_old = settings().driver < CUDART_VERSION / 1000 * 1000;
  return too_old ? 0 : static_cast<int>(settings().gpus.size());
}

int current_gpu() { return gpu_of_thread; }

void set_current_gpu(int gpu) { gpu_of_thread = gpu; }

void use_context(int gpu) {
  load_numbers();
  const auto index = static_cast<size_t>(gpu);
  if (!contexts.at(index).exchange(true)) count(Operation::kContext, kNames[index]);
}

bool has_context(int gpu) { return contexts.at(static_cast<size_t>(gpu)); }

}  // namespace fake_gpu
