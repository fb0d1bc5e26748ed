#pragma once

#include <optional>

#include "checkpoint/store.h"
#include "dist/communicator.h"

namespace dtrain::train {

// Gives every rank the snapshot that rank 0, the only one that reads checkpoints, has loaded.
// Collective. `snapshot` is ignored on the other ranks. std::nullopt on rank 0 gives
// std::nullopt everywhere.
std::optional<checkpoint::Snapshot> broadcast_snapshot(
    dist::Communicator& host, const std::optional<checkpoint::Snapshot>& snapshot);

}  // namespace dtrain::train
