#pragma once

// The last step of a conversion: the samples that were kept, from the spool to the data file.

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

}  // namespace dtrain::convert
