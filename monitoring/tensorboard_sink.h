#pragma once

// The scalars of a run for TensorBoard. Each start of the run writes a new events.out.tfevents.*
// file, and TensorBoard itself drops what the older files hold from the first step of the new
// one on.

#include <filesystem>
#include <memory>

#include "monitoring/sink.h"

namespace dtrain::monitoring {

// Writes into `run_folder`, which must exist.
std::unique_ptr<Sink> make_tensorboard_sink(const std::filesystem::path& run_folder);

}  // namespace dtrain::monitoring
