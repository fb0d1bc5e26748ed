#pragma once

// The report of a run, with samples that its network predicts: what a run writes at its end, and
// `dtrain report`. One process reads the folder; nothing here is collective.

#include <filesystem>
#include <string>
#include <vector>

#include "data/hdf5/probe_process.h"
#include "report/page.h"
#include "report/run_records.h"

namespace dtrain::job {

inline constexpr const char* kReportName = "report.html";  // file name in the run folder

// A dozen samples of the validation split (or of the test or training split, where it is empty),
// spread evenly over it, as the newest checkpoint sees them; computed on the CPU. Any Error where
// the checkpoint or the data are not there. A TorchScript network is code, and users may look at
// the runs of others: only the file that `code` names is run.
report::ContactSheet contact_sheet(data::ProbeProcess&, const std::filesystem::path& run,
                                   const std::string& code);

// The files that it may read for the data, by the records of the run: those that are there and
// those that are not.
std::vector<std::filesystem::path> data_files_of(const report::RunRecords& run);

// The same as contact_sheet(); where that fails there is no sample, and the reason is in run.gaps.
report::ContactSheet contact_sheet_or_gap(data::ProbeProcess&, report::RunRecords& run,
                                          const std::string& code);

// Reads the folder of a run that this process has trained, and writes its report there. `code`: the
// TorchScript file that it trained, or "". OutputError.
void write_own_report(data::ProbeProcess&, const std::filesystem::path& run,
                      const std::string& code);

}  // namespace dtrain::job
