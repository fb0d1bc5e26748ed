#include "cuda/waits.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/auxv.h>

#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/settings.h"

namespace fake_gpu {
namespace {

constexpr size_t kFunctions = 2;
constexpr int kDeepest = 64;

// Return addresses within the program, innermost first.
using Place = std::vector<uintptr_t>;

struct Object {
  std::string_view file = {};  // a path; of the program, as it was started
  uintptr_t begin = 0;
};

Object object_of(const void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  return {info.dli_fname, reinterpret_cast<uintptr_t>(info.dli_fbase)};
}

// Between the program and the runtime: events and streams as LibTorch has them.
bool passes_on(std::string_view file) { return file.find("libc10") != std::string_view::npos; }

Place place_of(std::string_view kind) {
  static const uintptr_t runtime = object_of(reinterpret_cast<const void*>(&waits_here)).begin;
  static const uintptr_t program =
      object_of(reinterpret_cast<const void*>(::getauxval(AT_PHDR))).begin;
  std::array<void*, kDeepest> stack;
  const int depth = ::backtrace(stack.data(), kDeepest);
  Place place;
  for (int i = 0; i < depth && place.size() < kFunctions; ++i) {
    const void* frame = stack[static_cast<size_t>(i)];
    const Object object = object_of(frame);
    if (object.begin == program) {
      place.push_back(reinterpret_cast<uintptr_t>(frame) - program);
    } else if (place.empty() && object.begin != runtime && !passes_on(object.file) &&
               kind != "record_stream") {
      return {};
    }
  }
  return place;
}

std::string key_of(std::string_view kind, const Place& place) {
  uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  const auto add = [&](uint64_t value) { hash = (hash ^ value) * 1099511628211ULL; };
  for (const char letter : kind) add(static_cast<unsigned char>(letter));
  for (const uintptr_t address : place) add(address);
  std::array<char, 20> text{};
  std::snprintf(text.data(), text.size(), "%016" PRIx64, hash);
  return text.data();
}

void write(const char* file, const std::string& key, const char* kind, const Place& place) {
  static std::mutex mutex;
  static auto* written = new std::set<std::string>;  // used until the process has ended
  const std::lock_guard lock(mutex);
  if (!written->insert(key).second) return;
  std::FILE* out = std::fopen(file, "a");
  if (out == nullptr) return;
  std::fprintf(out, "%s\t%s", key.c_str(), kind);
  for (const uintptr_t address : place) std::fprintf(out, "\t%" PRIxPTR, address);
  std::fprintf(out, "\n");
  std::fclose(out);
}

}  // namespace

bool waits_here(const char* kind) {
  const Settings& asked = settings();
  if (asked.waits.empty() && asked.without.empty()) return true;
  const Place place = place_of(kind);
  if (place.empty()) return true;  // LibTorch's
  const std::string key = key_of(kind, place);
  if (!asked.waits.empty()) write(asked.waits.c_str(), key, kind, place);
  return key != asked.without;
}

}  // namespace fake_gpu
