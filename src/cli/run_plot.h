#pragma once

#include <filesystem>

namespace dtrain::cli {

// Draws RUN/loss.svg from RUN/metrics.jsonl: the training loss, and the validation metrics by step. Nothing to draw, or
// a file that cannot be read: no plot, no error. OutputError when it cannot be written.
void write_run_plot(const std::filesystem::path& run);

}  // namespace dtrain::cli
