#pragma once

// A report as one HTML file without outside resources and without scripts: the template
// report.html, filled. The data are in it as JSON too, in the element with the id
// dtrain-report. Pure.

#include <string>
#include <vector>

#include "report/digest.h"
#include "report/regression.h"
#include "report/run_records.h"

namespace dtrain::report {

// Some samples with what the network says of them.
struct ShownSample {
  std::string picture = {};  // a data: URI; "": the input is no picture
  std::string name = {}, target = {}, prediction = {};
  double error = kUnknown;  // the task's own measure
};
struct ContactSheet {
  std::string caption = {};  // which checkpoint, which split
  std::vector<ShownSample> samples = {};
};

// `now`: seconds since 1970
std::string page(const RunRecords&, const Digest&, const ContactSheet&, double now);
// The content of --json, which the page holds as well.
std::string report_json(const RunRecords&, const Digest&, const ContactSheet&);

// A run with what was computed from it.
struct Known {
  const RunRecords& run;
  const Digest& digest;
};
// The keys of the configurations that differ (but not those of the section run), each with both
// values; "" where a run does not have it.
struct Difference {
  std::string key, first, second;
};
std::vector<Difference> config_differences(const RunRecords& first, const RunRecords& second);
std::string comparison_text(Known first, Known second, const std::vector<Regression>&,
                            double limit);
std::string comparison_page(Known first, Known second, const std::vector<Regression>&, double limit,
                            double now);
std::string comparison_json(Known first, Known second, const std::vector<Regression>&,
                            double limit);

}  // namespace dtrain::report
