// `dtrain report`: a run, or two beside each other, as a card for the terminal, a page, JSON or
// a picture.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <optional>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/row_output.h"
#include "core/clock.h"
#include "core/error.h"
#include "data/hdf5/probe_process.h"
#include "job/run_report.h"
#include "os/file_system.h"
#include "os/output_guard.h"
#include "report/card.h"
#include "report/curves.h"
#include "report/digest.h"
#include "report/page.h"
#include "report/read_run.h"
#include "report/regression.h"
#include "text/printable.h"
#include "text/strings.h"

namespace dtrain::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kComparisonName = "comparison.html";  // file in the second run's folder
constexpr double kUsualLimit = 0.05;  // for the judgment where no gate is asked for

struct Options {
  std::vector<std::string> runs;
  std::string out, json, svg, module_file;
  std::optional<double> max_regression;  // percent
  bool text = false, force = false;

  double limit() const { return max_regression ? *max_regression / 100 : kUsualLimit; }
  // Which then holds nothing else.
  bool to_standard_output() const { return json == "-" || out == "-" || svg == "-"; }
  bool writes_page() const { return !text && (!to_standard_output() || !out.empty()); }
};

// Where the page goes without --out. It may be replaced: only this command and the run itself
// write it.
fs::path own_page(const fs::path& run, const char* name) { return run / name; }

// By its folder and its name: where a link of that name leads to is not the page.
bool is_own_page(const fs::path& out, const fs::path& own) {
  std::error_code unknown;
  const auto folder = [&](const fs::path& page) {
    return fs::weakly_canonical(fs::absolute(page, unknown).parent_path(), unknown);
  };
  return out.empty() || (out.filename() == own.filename() && folder(out) == folder(own));
}

// `sampled`: the run whose data are read, for the samples of the page; null: none.
Inputs inputs_of(const Options& options, const report::RunRecords* sampled) {
  Inputs inputs{.files = {options.module_file}, .folders = {}};
  if (sampled == nullptr) return inputs;
  for (const fs::path& file : job::data_files_of(*sampled)) inputs.files.push_back(file);
  return inputs;
}

void check_outputs(const Options& options, const fs::path& own, const report::RunRecords* sampled) {
  for (const std::string& given :
       {options.svg, options.json, is_own_page(options.out, own) ? "" : options.out}) {
    const fs::path file = is_standard_output(given) ? "" : given;
    if (file.empty()) continue;
    protect(file, inputs_of(options, sampled));
    check_output(file, options.force);
  }
}

void write(const fs::path& path, const std::string& text) {
  RowOutput out(path);
  out.write(text);
  out.close();
}

void write_page(const Options& options, const fs::path& own, const std::string& html) {
  const fs::path path = options.out.empty() ? own : fs::path(options.out);
  if (is_own_page(options.out, own)) {
    // A link of that name is replaced, not followed
    write_atomically(real_file_system(), path, html);
  } else {
    write(path, html);
  }
  if (options.to_standard_output()) return;
  const std::string line =
      str("report: ", path.string(), " (", human_bytes(static_cast<double>(html.size())), ")");
  write("-", printable(line) + "\n");
}

int report_of_one(const Options& options, data::ProbeProcess& prober) {
  report::RunRecords run = report::read_run(options.runs[0]);
  const fs::path own = own_page(run.folder, job::kReportName);
  check_outputs(options, own, &run);
  const report::Digest digest = report::digest(run);
  if (!options.to_standard_output()) write("-", report::card(run, digest, unix_seconds()));
  report::ContactSheet sheet;
  if (!options.text) sheet = job::contact_sheet_or_gap(prober, run, options.module_file);
  if (!options.svg.empty())
    write(options.svg, report::standalone_svg(run.name, report::learning_curves(run)));
  if (!options.json.empty()) write(options.json, report::report_json(run, digest, sheet));
  if (!options.writes_page()) return 0;
  write_page(options, own, report::page(run, digest, sheet, unix_seconds()));
  return 0;
}

int report_of_two(const Options& options) {
  const report::RunRecords first = report::read_run(options.runs[0]),
                           second = report::read_run(options.runs[1]);
  if (options.max_regression) report::require_same_task(first, second);
  const fs::path own = own_page(second.folder, kComparisonName);
  check_outputs(options, own, /*sampled=*/nullptr);
  const report::Digest of_first = report::digest(first), of_second = report::digest(second);
  const report::Known a{first, of_first}, b{second, of_second};
  const double limit = options.limit();
  const std::vector<report::Regression> all =
      report::regressions(first, of_first, second, of_second, limit);
  if (!options.to_standard_output()) write("-", report::comparison_text(a, b, all, limit));
  if (!options.svg.empty()) {
    write(options.svg, report::standalone_svg(first.name + " and " + second.name,
                                              report::common_curves(first, second)));
  }
  if (!options.json.empty()) write(options.json, report::comparison_json(a, b, all, limit));
  if (options.writes_page()) {
    write_page(options, own, report::comparison_page(a, b, all, limit, unix_seconds()));
  }
  const bool worse = std::any_of(all.begin(), all.end(), [](const report::Regression& r) {
    return r.judgment == report::Judgment::kWorse;
  });
  return options.max_regression && worse ? kExitFound : 0;
}

}  // namespace

int run_report(const Arguments& arguments) {
  CLI::App app("a run, or two beside each other, as a page and a card", "dtrain report");
  Options options;
  app.add_option("RUN", options.runs,
                 "a run folder, finished or not; of two, the second is compared with the first")
      ->required()
      ->expected(1, 2);
  app.add_option(
      "--module", options.module_file,
      "task module: its TorchScript file, which is code, to be run on the samples of the page");
  app.add_option("--max-regression", options.max_regression,
                 "with two runs: exit code 1 if the throughput or the validation metric of the "
                 "second is worse by more than this many percent, and by more than the noise of "
                 "both")
      ->check(number_within(0, 100));
  CLI::Option* text =
      app.add_flag("--text", options.text, "only the card for the terminal, no page");
  app.add_option("--out", options.out,
                 "the page (default: RUN/report.html, of two runs RUN2/comparison.html, which is "
                 "replaced); -: to the standard output, alone");
  app.get_option("--out")->excludes(text);
  app.add_option("--json", options.json,
                 "write the numbers as JSON to this file; -: to the standard output, alone")
      ->check(not_empty());
  app.add_option("--svg", options.svg,
                 "write the curves as a picture to this file; -: to the standard output, alone")
      ->check(not_empty());
  app.add_flag("--force", options.force, "replace existing files");
  if (!parse(app, arguments)) return 0;
  if (options.max_regression && options.runs.size() != 2) {
    throw UsageError(
        "dtrain report: --max-regression compares two runs: name both (dtrain report --help)");
  }
  check_distinct({{"--out", options.out}, {"--json", options.json}, {"--svg", options.svg}});
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe becomes an error of write()
  if (options.runs.size() == 2) return report_of_two(options);
  data::ProbeProcess prober;  // before there are threads
  return report_of_one(options, prober);
}

}  // namespace dtrain::cli
