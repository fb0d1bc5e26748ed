#pragma once

// metrics.jsonl: one JSON object per line for each logging step, evaluation, checkpoint and change
// of state. The keys are described in docs/metrics.md. JSON has no NaN and no infinity: such a
// number is null, and beside an infinite one a key NAME_text says "inf" or "-inf".

#include <cstdint>
#include <filesystem>
#include <memory>

#include "monitoring/sink.h"

namespace dtrain::monitoring {

// Appends to `file`. Records after `resumed_step`, and a last line that a crash cut short, are
// removed first, so that each step is in the file once.
std::unique_ptr<Sink> make_jsonl_sink(const std::filesystem::path& file, int64_t resumed_step);

}  // namespace dtrain::monitoring
