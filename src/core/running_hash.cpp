#include "core/running_hash.h"

#define XXH_STATIC_LINKING_ONLY  // the size of XXH64_state_t
#include <xxhash.h>

namespace dtrain {

struct RunningHash::State {
  XXH64_state_t xxh64;
};

RunningHash::RunningHash(uint64_t seed) : state_(std::make_unique<State>()) {
  XXH64_reset(&state_->xxh64, seed);
}
RunningHash::~RunningHash() = default;
RunningHash::RunningHash(RunningHash&&) noexcept = default;
RunningHash& RunningHash::operator=(RunningHash&&) noexcept = default;

void RunningHash::add(std::span<const std::byte> bytes) {
  XXH64_update(&state_->xxh64, bytes.data(), bytes.size());
}

uint64_t RunningHash::value() const { return XXH64_digest(&state_->xxh64); }

}  // namespace dtrain
