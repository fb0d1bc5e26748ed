#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/progress_line.h"
#include "core/error.h"
#include "core/log.h"
#include "core/strings.h"
#include "data/synth/synth.h"

namespace dtrain::cli {
namespace {

constexpr const char* kAbout =
    R"(Generate data whose right answers are known, to try a machine or a set-up without a data set.

headpose: shaded 3-D heads on clutter, yaw within 75, pitch within 50, roll within 40 degrees. Layouts:
  hdf5     one file, ready to train, a tenth of the photos as test split
  300wlp   the published folder layout of 300W-LP, for `dtrain convert 300wlp`
  biwi     the published folder layout of BIWI, for `dtrain convert biwi`
Equal options give equal files.)";

}  // namespace

int run_synth(const Arguments& arguments) {
  data::SynthOptions options;
  std::string task, out;
  CLI::App app(kAbout, "dtrain synth");
  app.add_option("TASK", task, "headpose")->required();
  app.add_option("--layout", options.layout, "hdf5, 300wlp or biwi")->capture_default_str();
  app.add_option("--samples", options.samples, "number of pictures")->capture_default_str();
  app.add_option("--size", options.size, "height of the pictures in pixels; 0: 64 (hdf5), 450 (300wlp), 480 (biwi)")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of everything drawn")->capture_default_str();
  app.add_option("--out", out, "file or folder to write (default: data/synth_headpose.h5 or data/synth_LAYOUT)");
  app.add_option("--threads", options.threads, "0: all cores this process may use")->capture_default_str();
  app.add_flag("--force", options.force, "hdf5: replace an existing file");
  if (!parse(app, arguments)) return 0;
  if (task != "headpose") throw UsageError(str("unknown task ", task, ". Known: headpose"));
  options.out = !out.empty()               ? out
                : options.layout == "hdf5" ? "data/synth_headpose.h5"
                                           : "data/synth_" + options.layout;

  ProgressLine line("drawing");
  const data::SynthSummary summary =
      data::synth_headpose(options, [&](int64_t done, int64_t total) { line.show(done, total); });
  log::plain(str("wrote ", options.out.string(), ": ", human_count(summary.samples), " pictures of ", summary.size,
                 " pixels in ", human_count(summary.groups), options.layout == "biwi" ? " sequences" : " photos",
                 options.layout == "hdf5"
                     ? str(" (train ", human_count(summary.train), ", test ", human_count(summary.test), ")")
                     : str(". Convert them: dtrain convert ", options.layout, " ", options.out.string()),
                 ", ", human_duration(summary.seconds)));
  return 0;
}

}  // namespace dtrain::cli
