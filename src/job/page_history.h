#pragma once

// The curves of a resumed run on its live page: what its earlier processes recorded in
// metrics.jsonl. One process reads the folder; nothing here is collective.

#include <filesystem>

#include "monitoring/live_page.h"

namespace dtrain::job {

// To be called when the records after the step that is resumed have been removed, and before the
// page's first record. Damaged records are left out, and what cannot be read at all leaves the
// curves empty: a page is never an error.
void show_earlier(monitoring::LivePage&, const std::filesystem::path& run);

}  // namespace dtrain::job
