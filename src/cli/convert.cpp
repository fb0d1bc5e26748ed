#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>

#include "catalog/catalog.h"
#include "cli/commands.h"
#include "cli/earlier_output.h"
#include "cli/options.h"
#include "config/load.h"
#include "convert/convert.h"
#include "convert/raw_set.h"
#include "core/error.h"
#include "core/log.h"
#include "data/hdf5/probe_process.h"
#include "job/class_list.h"
#include "job/signals.h"
#include "os/file_system.h"
#include "os/output_guard.h"
#include "text/printable.h"
#include "text/strings.h"

namespace dtrain::cli {
namespace {

constexpr const char* kAbout =
    R"(Turn data as others publish or keep it into one dtrain HDF5 file, ready to train.

Your own data:
  images     DIR/CLASS/...: JPEG, PNG and WebP of any kind and size. Turned upright (Exif), over white where they are
             transparent, the shorter side scaled to --size (256), the middle square kept; uint8 [N, S, S, 3]
  sequence   DIR/CLASS/...: .npy of shape [T, F] or [T], any T, one F; float16, 32 or 64, integers of 8 to 64 bits, or
             bool; stored as float32
             Both: or DIR/train/CLASS/..., DIR/val/CLASS/..., DIR/test/CLASS/... (any of the three; also Training,
             valid, dev, test_images and the like; --splits-from-folders decides where that is not clear)
  pointer    FILE.npz: features [N, L, 7 or 8], order [N, L] (padded with -1), lengths [N] if wanted; or, for sets of
             any size, values [R, 7 or 8], offsets [N + 1], order [R]. order: the element visited first, second, ...
             In both, if wanted, split [N]: 0 train, 1 val, 2 test
  arrays     FILE.npz: inputs uint8 [N, H, W, 3] or gray [N, H, W] (images, stored as they are), or numbers [N, F] or
             [N, T, F] (rows, stored as float32); targets [N] or [N, K], floats for numbers to predict, integers for
             classes. If wanted: lengths [N] (rows of sample i), split [N], group [N] (never divided among splits),
             class_names [C]. For your own network (--task module) or for classes of images (--task classify)

Published head-pose sets (yaw, pitch, roll in degrees; an angle beyond 99 degrees: left out and counted):
  300wlp     AFW, HELEN, IBUG, LFPW and their *_Flip: NAME.jpg beside NAME.mat (Pose_Para, pt2d)
  aflw2000   NAME.jpg beside NAME.mat; all of it becomes the test split
  biwi       01 to 24: frame_NNNNN_rgb.png, frame_NNNNN_pose.txt and rgb.cal

Lists of samples (--train-list and the like): names relative to DIR, with or without suffix, one a line. A folder
before all names, \, comments after #, and the encodings and line ends of other systems are accepted; a number after
a name (the list of Caffe) must agree with the class folders, which decide.

Damaged samples are left out and listed with their reason in OUT.quarantine.json. An interrupted conversion goes on
where it was when the same command is given again (OUT.partial holds it). Splits that the data do not say are drawn by key: by class
(images, sequence, arrays with classes), by group (arrays), by source photo (300wlp) or person (biwi).)";

constexpr size_t kQuarantinedShown = 5;

std::string count(int64_t n, const char* what) { return str(human_count(n), " ", what); }

std::string estimated(double bytes) {
  return bytes < (1 << 20) ? "less than 1 MiB" : "about " + human_bytes(bytes);
}

void tell(const convert::ConvertPlan& plan, const std::string& out) {
  std::string text = str("converting ", count(plan.samples, "samples"), " into ", out, ": ",
                         estimated(plan.output_bytes), " (", estimated(plan.working_bytes),
                         " needed while it is made)");
  if (plan.free_bytes > 0) text += ", " + human_bytes(plan.free_bytes) + " free on that disk";
  log::info(text);
}

std::string form(const convert::ConvertSummary& s) {
  const data::Field& input = s.schema.input;
  const std::vector<int64_t>& shape = input.shape;
  if (input.element == data::Element::kUint8) return str("samples of ", shape[1], "x", shape[0]);
  if (shape.size() == 1)
    return str("samples of ", shape[0], shape[0] == 1 ? " number" : " numbers");
  if (!input.variable()) return str("samples of ", shape[0], " rows of ", shape[1]);
  const bool sets =
      catalog::row(catalog::task_named(s.schema.task)).sample == catalog::SampleKind::kSet;
  return str(sets ? "sets" : "sequences", " of ", fixed(s.mean_rows, 1), " rows of ", shape[1],
             " on average");
}

void tell_classes(const convert::ConvertSummary& s) {
  if (s.classes.empty()) return;
  const auto by_count = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [fewest, most] = std::minmax_element(s.classes.begin(), s.classes.end(), by_count);
  log::plain(str(s.classes.size(), " classes, from ", count(fewest->second, "samples"), " (",
                 printable(fewest->first), ") to ", human_count(most->second), " (",
                 printable(most->first), ")"));
}

void tell(const convert::ConvertSummary& s, const convert::ConvertOptions& options) {
  std::vector<std::string> splits;
  for (const auto& [name, samples] : s.splits)
    splits.push_back(str(name, " ", human_count(samples)));
  log::plain(str("wrote ", printable(options.out.string()), ": ", human_count(s.kept), " ", form(s),
                 " (", join(splits, ", "), ")",
                 s.groups == s.kept ? "" : str(" in ", count(s.groups, "groups")), ", ",
                 human_duration(s.seconds)));
  tell_classes(s);
  std::vector<std::string> left_out;
  if (s.beyond_range > 0)
    left_out.push_back(count(s.beyond_range, "with an angle beyond 99 degrees"));
  if (s.unlisted > 0) left_out.push_back(count(s.unlisted, "in none of the lists"));
  if (s.damaged > 0) left_out.push_back(count(s.damaged, "damaged"));
  if (!left_out.empty())
    log::plain(str("left out of ", human_count(s.found), " found: ", join(left_out, ", ")));
  for (size_t i = 0; i < std::min(kQuarantinedShown, s.quarantined.size()); ++i) {
    log::plain(printable(str("  ", s.quarantined[i].name, ": ", s.quarantined[i].reason)));
  }
  if (!s.quarantined.empty()) log::plain("  all of them: " + printable(s.quarantine_file.string()));
  if (s.straddling.groups > 0) {
    log::warning(
        str(s.straddling.groups,
            " source photos or persons have samples in more than one of the lists (first: ",
            s.straddling.first, "): the error measured will be too small"));
  }
  if (s.repeated > 0) {
    log::warning(str(count(s.repeated, "samples"),
                     " of the validation and test splits are, byte for byte, also in the",
                     " training split: the error measured will be too small"));
  }
}

int interrupted(const std::filesystem::path& out) {
  const std::filesystem::path partial = convert::partial_folder(out);
  log::plain(std::filesystem::exists(partial)
                 ? str("interrupted: ", printable(out.string()),
                       " was not written. The same command goes on with what ",
                       printable(partial.string()), " holds")
                 : "interrupted: nothing was written");
  return job::kExitInterrupted;
}

// OUT and what is written beside it: not over the source, nor over the lists of the splits.
void protect_inputs(const convert::ConvertOptions& options, const std::string& classes,
                    data::ProbeProcess& prober) {
  const convert::SplitOptions& split = options.split;
  Inputs inputs{.files = {split.train_list, split.val_list, split.test_list}, .folders = {}};
  for (const std::filesystem::path& input : {options.source, std::filesystem::path(classes)}) {
    (std::filesystem::is_directory(input) ? inputs.folders : inputs.files).push_back(input);
  }
  const IsEarlierOutput earlier = std::bind_front(is_earlier_output, std::ref(prober));
  protect_data_file(options.out, inputs, earlier);
  protect(convert::partial_folder(options.out), inputs, earlier);
  // The user has named OUT, but not this file beside it.
  const std::filesystem::path list = convert::quarantine_file(options.out);
  protect(list, inputs, earlier);
  if (!options.force && is_there(list) && !is_earlier_output(prober, list)) {
    throw OutputError(str(
        list.string(), " exists and was not written by dtrain: the list of damaged samples would ",
        "replace it. Move it, give --out another name, or replace it with --force"));
  }
}

}  // namespace

int run_convert(const Arguments& arguments) {
  convert::ConvertOptions options;
  std::string name, source, out, splits_from_folders, classes;
  CLI::App app(kAbout, "dtrain convert");
  app.add_option("NAME", name, join(catalog::data_set_names(), ", "))->required();
  app.add_option("SOURCE", source, "the folder of the data; pointer, arrays: the file")->required();
  const std::vector<std::string> tasks = convert::array_tasks();
  app.add_option("--task", options.task,
                 str("arrays: ", join(tasks, " or "),
                     " (default: ", catalog::data_set_named("arrays")->task, ")"))
      ->check(CLI::IsMember(tasks));
  app.add_option("--size", options.size,
                 "side of the stored pictures in pixels (default: images 256, head pose 224)")
      ->check(whole_number(1, 4096));
  app.add_option("--classes", classes,
                 "images, sequence, arrays: the classes and their order are those of this run, "
                 "checkpoint, data file or text file with a name on each line; for data that "
                 "evaluate a network, which may lack some of them")
      ->check(not_empty());
  app.add_option(
         "--splits-from-folders", splits_from_folders,
         "images, sequence: yes: folders named like splits (train, valid, test) are splits; no: "
         "all folders are classes (default: yes, but an error if other folders are beside them)")
      ->check(CLI::IsMember({"yes", "no"}));
  app.add_option("--train-list", options.split.train_list,
                 "file of sample names, one a line (see above)");
  app.add_option("--val-list", options.split.val_list, "likewise");
  app.add_option("--test-list", options.split.test_list,
                 "likewise; samples in no list are left out");
  app.add_option(
         "--test-sequences", options.test_sequences,
         str("biwi: sequences of the test split, with all others of the same people (default: ",
             join(convert::kBiwiTestSequences, ","), ")"))
      ->delimiter(',');
  add_number(app, "--test-share", options.split.test_share, 0, 1,
             "share that becomes the test split, of each class or group (1, with --classes: all)");
  app.add_option("--val-share", options.split.val_share,
                 "likewise, validation (default: 0.1; head pose 0: training takes it out of the "
                 "training split)")
      ->check(number_within(0, 1));
  add_number(app, "--seed", options.split.seed, 0, kAnySeed, "of these choices");
  add_number(app, "--threads", options.threads, 0, 4096, "0: all cores this process may use");
  app.add_option("--out", out, "the file to write (default: data/NAME.h5)");
  app.add_flag("--force", options.force, "replace an existing file");
  if (!parse(app, arguments)) return 0;
  options.source = source;
  const catalog::DataSetEntry* known = catalog::data_set_named(name);
  if (app.count("--size") > 0 && known != nullptr && known->size == 0) {
    throw UsageError(str("--size is of pictures that are scaled, and ", name, " has none"));
  }
  if (app.count("--out") > 0 && out.empty())
    throw UsageError("--out is empty: give it a name, or leave it out");
  options.out = link_target(out.empty() ? config::file_of_data_set(name) : out);
  if (!splits_from_folders.empty()) options.splits_from_folders = splits_from_folders == "yes";
  options.split.shares_given = app.count("--test-share") + app.count("--val-share") > 0;
  data::ProbeProcess prober;
  if (!classes.empty()) options.classes = job::classes_of(prober, classes);
  convert::check_options(name, options);  // what is to be read, before what is to be written
  protect_inputs(options, classes, prober);

  convert::ConvertSummary summary;
  const bool finished = job::run_interruptible([&](const ReportProgress& report) {
    summary = convert::convert(name, options, report, [&](const convert::ConvertPlan& plan) {
      tell(plan, options.out.string());
    });
  });
  if (!finished) return interrupted(options.out);
  tell(summary, options);
  return 0;
}

}  // namespace dtrain::cli
