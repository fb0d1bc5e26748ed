#pragma once

// What a conversion leaves behind, made of its spool: the data file with the samples that were
// kept, and beside it the list of the damaged ones.

#include <filesystem>
#include <string>
#include <vector>

#include "convert/conversion.h"
#include "convert/raw_set.h"
#include "convert/spool.h"

namespace dtrain::convert {

// Writes options.out from the kept samples that are in a split, in the order of the set. `summary`
// has the schema and the counts; summary.groups is set here. Reports the stage "writing".
// Errors: OutputError, and what `report` throws; no file is left then.
void assemble(const std::string& name, const ConvertOptions&, const RawSet&,
              const std::vector<Split>&, const Spool&, const ReportProgress&, ConvertSummary&);

// Writes the names of damaged samples and why each was left out for the output `out`, and sets
// summary.quarantine_file; removes the list of an earlier conversion if no sample is damaged. The
// list appears whole or not at all. Errors: OutputError.
void write_quarantine(const std::filesystem::path& out, const RawSet&, const std::vector<Split>&,
                      const Spool&, ConvertSummary&);

}  // namespace dtrain::convert
