#pragma once

// A checkpoint's content from rank 0, which alone reads the folder, to every rank.

#include <optional>

#include "checkpoint/store.h"
#include "dist/communicator.h"

namespace dtrain::train {

// Collective. `content` counts on rank 0 only; nothing there: nothing everywhere.
std::optional<checkpoint::Content> broadcast_content(dist::Communicator& host,
                                                     const std::optional<checkpoint::Content>& content);

}  // namespace dtrain::train
