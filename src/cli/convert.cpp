#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/progress_line.h"
#include "core/log.h"
#include "core/strings.h"
#include "data/convert/convert.h"

namespace dtrain::cli {
namespace {

constexpr const char* kAbout =
    R"(Turn a published data set's folder into one dtrain HDF5 file, ready to train.

Data sets and the layout that DIR must have:
  300wlp     AFW, HELEN, IBUG, LFPW and their *_Flip: NAME.jpg beside NAME.mat (Pose_Para, pt2d)
  aflw2000   NAME.jpg beside NAME.mat; all of it becomes the test split
  biwi       01 to 24: frame_NNNNN_rgb.png, frame_NNNNN_pose.txt and rgb.cal

Labels are yaw, pitch, roll in degrees; samples with an angle beyond 99 degrees are left out and counted. Damaged
samples are listed with their reason in OUT.quarantine.json. An interrupted conversion goes on where it was when the same
command is given again. The test split goes by source photo (300wlp) or person (biwi), never by picture.)";

constexpr size_t kQuarantinedShown = 5;

std::string count(int64_t n, const char* what) { return str(human_count(n), " ", what); }

void tell(const data::ConvertSummary& s, const data::ConvertOptions& options) {
  std::vector<std::string> splits;
  for (const auto& [name, samples] : s.splits) splits.push_back(str(name, " ", human_count(samples)));
  log::plain(str("wrote ", options.out.string(), ": ", count(s.kept, "samples"), " of ", options.size, "x",
                 options.size, " (", join(splits, ", "), ") in ", count(s.groups, "groups"), ", ",
                 human_duration(s.seconds)));
  std::vector<std::string> left_out;
  if (s.beyond_range > 0) left_out.push_back(count(s.beyond_range, "with an angle beyond 99 degrees"));
  if (s.unlisted > 0) left_out.push_back(count(s.unlisted, "in none of the lists"));
  if (!s.quarantined.empty()) left_out.push_back(count(static_cast<int64_t>(s.quarantined.size()), "damaged"));
  if (!left_out.empty()) log::plain(str("left out of ", human_count(s.found), " found: ", join(left_out, ", ")));
  for (size_t i = 0; i < std::min(kQuarantinedShown, s.quarantined.size()); ++i) {
    log::plain(str("  ", s.quarantined[i].name, ": ", s.quarantined[i].reason));
  }
  if (!s.quarantined.empty()) log::plain("  all of them: " + s.quarantine_file.string());
  if (!s.straddling_groups.empty()) {
    log::warning(str(s.straddling_groups.size(),
                     " source photos or persons have samples in more than one of the lists (first: ",
                     s.straddling_groups.front(), "): the error measured will be too small"));
  }
}

}  // namespace

int run_convert(const Arguments& arguments) {
  data::ConvertOptions options;
  std::string name, folder, out;
  CLI::App app(kAbout, "dtrain convert");
  app.add_option("NAME", name, "300wlp, aflw2000 or biwi")->required();
  app.add_option("DIR", folder, "the folder of the data set")->required();
  app.add_option("--out", out, "the file to write (default: data/NAME.h5)");
  app.add_option("--size", options.size, "side of the stored pictures in pixels")->capture_default_str();
  app.add_option("--threads", options.threads, "0: all cores this process may use")->capture_default_str();
  app.add_flag("--force", options.force, "replace an existing file");
  app.add_option("--test-share", options.split.test_share, "share of the source photos that becomes the test split")
      ->capture_default_str();
  app.add_option("--seed", options.split.seed, "of the choice of these photos")->capture_default_str();
  app.add_option("--train-list", options.split.train_list, "file of sample names without suffix, one a line");
  app.add_option("--val-list", options.split.val_list, "likewise");
  app.add_option("--test-list", options.split.test_list, "likewise; samples in no list are left out");
  app.add_option("--test-sequences", options.test_sequences,
                 str("biwi: sequences of the test split, with all others of the same people (default: ",
                     join(data::kBiwiTestSequences, ","), ")"))
      ->delimiter(',');
  if (!parse(app, arguments)) return 0;
  options.folder = folder;
  options.out = out.empty() ? "data/" + name + ".h5" : out;

  ProgressLine line("reading");
  const data::ConvertSummary summary = data::convert(name, options, [&](const data::ConvertProgress& progress) {
    line.show(progress.done, progress.total, progress.resumed);
  });
  tell(summary, options);
  return 0;
}

}  // namespace dtrain::cli
