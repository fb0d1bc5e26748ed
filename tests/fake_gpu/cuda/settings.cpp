#include "cuda/settings.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace fake_gpu {
namespace {

[[noreturn]] void refuse(const char* name, const char* value) {
  std::fprintf(stderr, "fake GPU: %s is %s\n", name, value);
  std::abort();
}

int64_t number(const char* name, int64_t usual) {
  const char* value = std::getenv(name);
  if (value == nullptr) return usual;
  char* end = nullptr;
  const int64_t parsed = std::strtoll(value, &end, 10);
  if (end == value || *end != '\0' || parsed < 0) refuse(name, value);
  return parsed;
}

// As CUDA: what follows a number that is none is not visible.
std::vector<int> visible_gpus() {
  const auto count = static_cast<int>(number("FAKE_GPU_COUNT", 1));
  std::vector<int> gpus;
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (list == nullptr) {
    for (int gpu = 0; gpu < count; ++gpu) gpus.push_back(gpu);
    return gpus;
  }
  for (const char* at = list; *at != '\0';) {
    char* end = nullptr;
    const auto gpu = static_cast<int>(std::strtol(at, &end, 10));
    if (end == at || gpu < 0 || gpu >= count) break;
    gpus.push_back(gpu);
    at = *end == ',' ? end + 1 : end;
  }
  return gpus;
}

// Whether the variable names this rank of the job, or is not given.
bool is_of_this_rank(const char* name) {
  const char* chosen = std::getenv(name);
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return chosen == nullptr || std::string_view(chosen) == (rank == nullptr ? "0" : rank);
}

void read_failure(Settings& settings) {
  const char* value = std::getenv("FAKE_GPU_FAIL");
  if (value == nullptr || !is_of_this_rank("FAKE_GPU_FAIL_RANK")) return;
  long long step = 0, launch = 0;
  if (std::sscanf(value, "%lld:%lld", &step, &launch) != 2) refuse("FAKE_GPU_FAIL", value);
  settings.fail_step = step;
  settings.fail_launch = launch;
}

Settings read() {
  Settings read{.gpus = visible_gpus(),
                .memory = static_cast<size_t>(number("FAKE_GPU_MEMORY_MIB", 24 << 10)) << 20,
                .capability = static_cast<int>(number("FAKE_GPU_CAPABILITY", 86)),
                .driver = static_cast<int>(number("FAKE_GPU_DRIVER", 13000)),
                .nccl_fail = number("FAKE_NCCL_FAIL", 0),
                .nccl_version = static_cast<int>(number("FAKE_NCCL_VERSION", 0))};
  read_failure(read);
  if (const char* folder = std::getenv("FAKE_GPU_REPORT")) read.report = folder;
  if (const char* library = std::getenv("FAKE_GPU_NUMBERS")) read.numbers = library;
  if (const char* file = std::getenv("FAKE_GPU_WAITS")) read.waits = file;
  if (const char* key = std::getenv("FAKE_GPU_WITHOUT")) read.without = key;
  if (const char* name = std::getenv("FAKE_GPU_SPOIL"))
    if (is_of_this_rank("FAKE_GPU_SPOIL_RANK")) read.spoil = name;
  read.order = number("FAKE_GPU_ORDER", -1);
  return read;
}

}  // namespace

const Settings& settings() {
  static const auto* settings = new Settings(read());  // used until the process has ended
  return *settings;
}

}  // namespace fake_gpu
