#pragma once

// The list of damaged samples beside a converted file: their names and why each was left out.

#include <filesystem>
#include <vector>

#include "convert/conversion.h"
#include "convert/raw_set.h"
#include "convert/spool.h"

namespace dtrain::convert {

// Writes the list for the output `out` and sets summary.quarantine_file; removes the list of an
// earlier conversion if no sample is damaged. The list appears whole or not at all.
// Errors: OutputError.
void write_quarantine(const std::filesystem::path& out, const RawSet&, const std::vector<Split>&,
                      const Spool&, ConvertSummary&);

}  // namespace dtrain::convert
