#pragma once

// The generated head-pose set that a bare `dtrain` trains on.

#include <filesystem>

#include "config/config.h"

namespace dtrain::job {

// ./data/quickstart-SIZE.h5, by the image size of the configuration.
std::filesystem::path quickstart_file(const config::Config&);

// Generates it unless it is there. The same bytes on every machine; call on one rank of each host.
void make_quickstart_data(const config::Config&, int threads);

}  // namespace dtrain::job
