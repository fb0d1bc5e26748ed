#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/commands.h"
#include "cli/options.h"
#include "core/error.h"
#include "core/log.h"
#include "data/order/splits.h"
#include "job/signals.h"
#include "os/file_system.h"
#include "os/output_guard.h"
#include "synth/pointer_rule.h"
#include "synth/synth.h"
#include "text/printable.h"
#include "text/strings.h"

namespace dtrain::cli {
namespace {

// The lines of --help about the tasks, which the table of tasks holds.
std::string lines_of_tasks(const std::vector<std::string>& tasks) {
  std::string lines;
  for (const std::string& name : tasks) {
    const catalog::Generated& made = synth::synth_task(name).generated;
    std::string line = "  " + name;
    line.resize(13, ' ');
    line += join(made.layouts, " | ");
    line.resize(34, ' ');
    lines += line + join(split(made.text, '\n'), "\n" + std::string(34, ' ')) + "\n";
  }
  return lines;
}

std::string about(const std::vector<std::string>& tasks) {
  return str(
      R"(Generate data whose right answers are known, to try a machine or a set-up without a data set.

TASK and its layouts (hdf5, the default, is one file, ready to train):
)",
      lines_of_tasks(tasks),
      R"(The other layouts are those of the real thing, for `dtrain convert` (images, 300wlp, biwi, pointer, sequence).
Splits: a tenth for testing, and, but for headpose, a tenth for validation. Equal options give equal files.)");
}

// A task with several raw layouts has a folder for each.
std::string default_out(const catalog::TaskEntry& task, const std::string& layout) {
  if (layout == "hdf5") return "data/synth_" + task.name + ".h5";
  if (layout == "npz") return "data/synth_" + task.name + ".npz";
  return "data/synth_" + (task.generated.layouts.size() > 2 ? layout : task.name);
}

// The layout's own, or the one for the task.
std::string converter_of(const catalog::TaskEntry& task, const std::string& layout) {
  if (catalog::data_set_named(layout) != nullptr) return layout;
  const std::vector<catalog::DataSetEntry>& sets = catalog::data_sets();
  const auto own = std::ranges::find(sets, task.name, &catalog::DataSetEntry::task);
  return own == sets.end() ? "arrays" : own->name;
}

}  // namespace

int run_synth(const Arguments& arguments) {
  synth::SynthOptions options;
  std::string task, out;
  const std::vector<std::string> tasks = synth::synth_tasks();
  std::vector<std::string> defaults;
  for (const std::string& one : tasks)
    defaults.push_back(str(one, " ", synth::synth_task(one).generated.samples));
  std::vector<std::string> with_pictures = tasks;
  std::erase_if(with_pictures, [](const std::string& one) {
    return synth::synth_task(one).sample != catalog::SampleKind::kPicture;
  });
  CLI::App app(about(tasks), "dtrain synth");
  app.add_option("TASK", task, join(tasks, ", "))->required();
  app.add_option("--layout", options.layout, "see above")->capture_default_str();
  app.add_option("--samples", options.samples,
                 str("how many (default: ", join(defaults, ", "), ")"))
      ->check(whole_number(1, int64_t{1} << 40));
  app.add_option(
         "--size", options.size,
         str(join(with_pictures, ", "),
             ": height of the pictures in pixels (default: 64, but 450 (300wlp), 480 (biwi))"))
      ->check(whole_number(synth::kSmallestPicture, synth::kLargestPicture));
  add_number(app, "--max-length", options.max_length, synth::kShortestSet, synth::kLongestSet,
             "pointer: elements of the longest sets");
  add_number(app, "--seed", options.seed, 0, kAnySeed, "of everything drawn");
  add_number(app, "--threads", options.threads, 0, 4096, "0: all cores this process may use");
  app.add_option("--out", out,
                 "file or folder to write (default: data/synth_TASK.h5, data/synth_TASK, ...)");
  app.add_flag("--force", options.force, "hdf5, npz: replace an existing file");
  if (!parse(app, arguments)) return 0;
  const catalog::TaskEntry& chosen = synth::synth_task(task);
  const bool pictures = chosen.sample == catalog::SampleKind::kPicture;
  if (app.count("--max-length") > 0 && chosen.sample != catalog::SampleKind::kSet)
    throw UsageError("--max-length is of pointer, not " + task);
  if (options.size != 0 && !pictures)
    throw UsageError("--size is of pictures; TASK " + task + " has none");
  if (app.count("--out") > 0 && out.empty())
    throw UsageError("--out is empty: give it a name, or leave it out");
  options.out = link_target(out.empty() ? default_out(chosen, options.layout) : out);
  if (options.layout == "hdf5") {
    protect_data_file(options.out, {});
  } else {
    protect(options.out, {});
  }

  synth::SynthSummary summary;
  if (!job::run_interruptible(
          [&](const ReportProgress& report) { summary = synth::synth(task, options, report); })) {
    log::plain("interrupted: nothing was written");
    return job::kExitInterrupted;
  }
  std::vector<std::string> parts;
  for (const auto& [name, samples] : summary.splits)
    parts.push_back(str(name, " ", human_count(samples)));
  std::string text = str("wrote ", options.out.string(), ": ", human_count(summary.samples), " ",
                         chosen.sample, "s");
  if (pictures) text += str(" of ", summary.size, " pixels");
  if (!parts.empty()) text += str(" (", join(parts, ", "), ")");
  text += str(", ", human_duration(summary.seconds));
  if (options.layout != "hdf5") {
    text += str(". Convert them: dtrain convert ", converter_of(chosen, options.layout), " ",
                options.out.string());
  }
  log::plain(printable(text));
  return 0;
}

}  // namespace dtrain::cli
