#pragma once

// The data that a run without a data file is trained on: generated once, then reused.

#include <filesystem>

#include "config/config.h"

namespace dtrain::job {

// Where it is kept: ./data/quickstart[-TASK][-SIZE].h5, SIZE for tasks with pictures.
std::filesystem::path quickstart_file(const config::Config&);

// Generates the file unless it exists, with the same bytes on every machine. Call it on one rank of
// each host. ConfigError for a task without generated data.
void make_quickstart_data(const config::Config&, int threads);

}  // namespace dtrain::job
