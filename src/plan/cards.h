#pragma once

// The memory of cards that a plan may name, and what of it a training cannot have. Pure.

#include <cstdint>
#include <string_view>
#include <vector>

namespace dtrain::plan {

struct Card {
  const char* name;
  double gigabytes;  // as the driver shows them: GiB
  int64_t bytes() const { return static_cast<int64_t>(gigabytes * (1 << 30)); }
};

const std::vector<Card>& known_cards();

// UsageError that names the nearest.
const Card& card_named(std::string_view name);

// CUDA's context, NCCL's buffers and the workspaces of cuDNN and cuBLAS: not measured where there is no such card.
inline constexpr int64_t kReservedBytes = int64_t{1} << 30;

}  // namespace dtrain::plan
