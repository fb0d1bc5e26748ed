#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/commands.h"
#include "cli/interruptible.h"
#include "cli/options.h"
#include "core/error.h"
#include "core/file_system.h"
#include "core/log.h"
#include "core/output_guard.h"
#include "core/printable.h"
#include "core/strings.h"
#include "data/order/splits.h"
#include "job/signals.h"
#include "synth/synth.h"

namespace dtrain::cli {
namespace {

constexpr const char* kAbout =
    R"(Generate data whose right answers are known, to try a machine or a set-up without a data set.

TASK and its layouts (hdf5, the default, is one file, ready to train):
  classify   hdf5 | images        forms and textures of ten classes on clutter
  headpose   hdf5 | 300wlp | biwi shaded 3-D heads on clutter, yaw within 75, pitch within 50, roll within 40 degrees
  pointer    hdf5 | npz           sets of 3 to --max-length elements of 7 features and is_visited: by feature 0, ties by
                                  feature 1, ascending where the mean of feature 2 is below 0.5, else descending
  sequence   hdf5 | npy           waves of six channels, 40 to 200 rows, of eight ways to move
The other layouts are those of the real thing, for `dtrain convert` (images, 300wlp, biwi, pointer, sequence).
Splits: a tenth for testing, and, but for headpose, a tenth for validation. Equal options give equal files.)";

std::string default_out(const std::string& task, const std::string& layout) {
  if (layout == "hdf5") return "data/synth_" + task + ".h5";
  if (layout == "npz") return "data/synth_" + task + ".npz";
  return task == "headpose" ? "data/synth_" + layout : "data/synth_" + task;
}

std::string converter_of(const std::string& layout) {
  return layout == "npz" ? "pointer" : layout == "npy" ? "sequence" : layout;
}

}  // namespace

int run_synth(const Arguments& arguments) {
  synth::SynthOptions options;
  std::string task, out;
  const std::vector<std::string> tasks = synth::synth_tasks();
  std::vector<std::string> defaults;
  for (const std::string& one : tasks)
    defaults.push_back(str(one, " ", synth::synth_task(one).generated.samples));
  CLI::App app(kAbout, "dtrain synth");
  app.add_option("TASK", task, join(tasks, ", "))->required();
  app.add_option("--layout", options.layout, "see above")->capture_default_str();
  app.add_option("--samples", options.samples,
                 str("how many (default: ", join(defaults, ", "), ")"))
      ->check(whole_number(1, int64_t{1} << 40));
  app.add_option("--size", options.size,
                 "classify, headpose: height of the pictures in pixels; 0: 64, but 450 (300wlp), "
                 "480 (biwi)")
      ->check(whole_number(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-length", options.max_length, "pointer: elements of the longest sets")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of everything drawn")
      ->check(whole_number(0, kAnySeed))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "0: all cores this process may use")
      ->check(whole_number(0, 4096))
      ->capture_default_str();
  app.add_option("--out", out,
                 "file or folder to write (default: data/synth_TASK.h5, data/synth_TASK, ...)");
  app.add_flag("--force", options.force, "hdf5, npz: replace an existing file");
  if (!parse(app, arguments)) return 0;
  const catalog::Task& chosen = synth::synth_task(task);
  const bool pictures = chosen.sample == catalog::Sample::kPicture;
  if (app.count("--max-length") > 0 && chosen.sample != catalog::Sample::kSet)
    throw UsageError("--max-length is of pointer, not " + task);
  if (options.size != 0 && !pictures)
    throw UsageError("--size is of pictures; TASK " + task + " has none");
  if (app.count("--out") > 0 && out.empty())
    throw UsageError("--out is empty: give it a name, or leave it out");
  options.out = link_target(out.empty() ? default_out(task, options.layout) : out);
  if (options.layout == "hdf5") {
    protect_data_file(options.out, {});
  } else {
    protect(options.out, {});
  }

  synth::SynthSummary summary;
  if (!run_interruptible(
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
    text += str(". Convert them: dtrain convert ", converter_of(options.layout), " ",
                options.out.string());
  }
  log::plain(printable(text));
  return 0;
}

}  // namespace dtrain::cli
