#include "synth/synth.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <system_error>

#include "convert/raw_set.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/parallel.h"
#include "data/hdf5/writer.h"
#include "os/file_descriptor.h"
#include "os/file_system.h"
#include "synth/layouts.h"
#include "synth/pointer_rule.h"
#include "synth/scene.h"
#include "text/strings.h"

namespace dtrain::synth {
namespace {

int default_size(const std::string& layout) {
  return layout == "300wlp" ? 450 : layout == "biwi" ? 480 : 64;
}

void check_layout(const catalog::TaskEntry& task, const std::string& layout) {
  const std::vector<std::string>& known = task.generated.layouts;
  if (std::ranges::count(known, layout) > 0) return;
  const std::string near = nearest(layout, known);
  throw UsageError(str("unknown layout ", layout, " of ", task.name, ".",
                       near.empty() ? "" : " Did you mean " + near + "?",
                       " Known: ", join(known, ", ")));
}

bool makes_folder(const std::string& layout) { return layout != "hdf5" && layout != "npz"; }

void check(const catalog::TaskEntry& task, const SynthOptions& options, int64_t samples) {
  check_layout(task, options.layout);
  if (samples < 1) throw UsageError(str("--samples ", samples, " is not at least 1"));
  if (options.size != 0 && (options.size < kSmallestPicture || options.size > kLargestPicture)) {
    throw UsageError(str("--size ", options.size, " is not between ", kSmallestPicture, " and ",
                         kLargestPicture));
  }
  if (options.max_length < kShortestSet || options.max_length > kLongestSet) {
    throw UsageError(str("--max-length ", options.max_length, " is not between ", kShortestSet,
                         " and ", kLongestSet));
  }
  const bool folder = makes_folder(options.layout);
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(options.out, code);
  if (!std::filesystem::status_known(status)) fail_to_write("use", options.out, code.value());
  if (!std::filesystem::exists(status)) return;
  if (!folder) check_new_file(options.out, /*replace=*/true);
  if (folder
          ? !std::filesystem::is_directory(status) || !std::filesystem::is_empty(options.out, code)
          : !options.force) {
    throw OutputError(str(options.out.string(), " exists",
                          folder ? " and is not an empty folder. Give another --out"
                                 : ". Give another --out, or --force to replace it"));
  }
}

std::unique_ptr<convert::RawSet> generated(const catalog::TaskEntry& task,
                                           const SynthOptions& options, int64_t samples, int size) {
  switch (task.generated.generator) {
    case catalog::Generator::kHeads:
      return generated_heads(task, options.seed, samples, size);
    case catalog::Generator::kScenes:
      return generated_scenes(task, options.seed, samples, size);
    case catalog::Generator::kSequences:
      return generated_sequences(task, options.seed, samples);
    default:
      DTRAIN_CHECK(task.generated.generator == catalog::Generator::kSets, task.name);
      return generated_sets(task, options.seed, samples, options.max_length,
                            options.out.stem().string() + ".npz");
  }
}

// Empties the output folder again unless complete() is called: an incomplete folder would look like
// a complete set.
class NewFolder {
 public:
  explicit NewFolder(const std::filesystem::path& folder)
      : folder_(folder), existed_(std::filesystem::exists(folder)) {}
  NewFolder(const NewFolder&) = delete;
  ~NewFolder() {
    if (complete_) return;
    std::error_code ignored;
    std::vector<std::filesystem::path> made;
    for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored))
      made.push_back(entry.path());
    for (const std::filesystem::path& path : made) std::filesystem::remove_all(path, ignored);
    if (!existed_) std::filesystem::remove(folder_, ignored);
  }
  void complete() { complete_ = true; }

 private:
  const std::filesystem::path folder_;
  const bool existed_;
  bool complete_ = false;
};

// Counts the rows of each sample by drawing it. It is drawn again when it is written, which costs
// less than keeping it.
void count_rows(const convert::RawSet& set, int threads, const ReportProgress& report,
                std::vector<int64_t>& input_rows, std::vector<int64_t>& target_rows) {
  const data::Schema schema = set.schema();
  const auto samples = static_cast<int64_t>(set.samples().size());
  if (schema.input.variable()) input_rows.resize(set.samples().size());
  if (schema.target.variable()) target_rows.resize(set.samples().size());
  if (input_rows.empty() && target_rows.empty()) return;
  parallel_for(
      samples, threads,
      [&](int64_t i) {
        const auto at = static_cast<size_t>(i);
        const convert::Record record = set.read(at);
        if (!input_rows.empty())
          input_rows[at] = static_cast<int64_t>(record.input.size()) / schema.input.row_bytes();
        if (!target_rows.empty()) {
          target_rows[at] = static_cast<int64_t>(record.target.size()) / schema.target.row_bytes();
        }
      },
      report, {.stage = "measuring"});
}

void write_hdf5(const convert::RawSet& set, const SynthOptions& options,
                const ReportProgress& report, SynthSummary& summary) {
  data::Schema schema = set.schema();
  schema.samples = static_cast<int64_t>(set.samples().size());
  std::vector<int64_t> input_rows, target_rows;
  count_rows(set, options.threads, report, input_rows, target_rows);
  const auto writer = data::Writer::create(options.out, schema, input_rows, target_rows);
  data::Writer::Extras extras;
  extras.attributes = set.attributes();
  extras.attributes["source"] = "synth";
  extras.attributes["seed"] = options.seed;
  if (!set.classes().empty()) extras.attributes["class_names"] = join(set.classes(), "\n");
  std::map<std::string, int64_t> group_ids;
  for (size_t i = 0; i < set.samples().size(); ++i) {
    const convert::RawSample sample = set.samples()[i];
    extras.splits[sample.split].push_back(static_cast<int64_t>(extras.source.size()));
    extras.source.push_back(sample.name);
    extras.group.push_back(
        group_ids.emplace(sample.group, static_cast<int64_t>(group_ids.size())).first->second);
  }
  parallel_for(
      schema.samples, options.threads,
      [&](int64_t i) {
        const convert::Record record = set.read(static_cast<size_t>(i));
        writer->write(i, record.input, record.target);
      },
      report, kDrawing);
  writer->finish(extras);
  summary.groups = static_cast<int64_t>(group_ids.size());
}

// Writes 300W-LP or BIWI. Their pictures differ from those of the hdf5 layout. Returns the number
// of groups.
int64_t write_published_heads(const SynthOptions& options, int64_t samples, int size,
                              const ReportProgress& report) {
  if (options.layout == "300wlp") {
    parallel_for(
        samples, options.threads,
        [&](int64_t i) { write_300wlp(options.out, options.seed, i, size); }, report, kDrawing);
    return lp_name(samples - 1).photo + 1;
  }
  const int64_t sequences = biwi_sequences(samples);
  for (int64_t s = 0; s < sequences; ++s) write_biwi_calibration(options.out, s, size);
  parallel_for(
      samples, options.threads,
      [&](int64_t i) { write_biwi(options.out, options.seed, i, sequences, size); }, report,
      kDrawing);
  return sequences;
}

}  // namespace

std::vector<std::string> synth_tasks() {
  std::vector<std::string> tasks = catalog::task_names([](const catalog::TaskEntry& task) {
    return task.generated.generator != catalog::Generator::kNone;
  });
  std::sort(tasks.begin(), tasks.end());
  return tasks;
}

const catalog::TaskEntry& synth_task(const std::string& name) {
  const std::vector<std::string> known = synth_tasks();
  if (std::ranges::count(known, name) > 0) return catalog::row(catalog::task_named(name));
  const std::string near = nearest(name, known);
  throw UsageError(str("unknown task ", name, ".",
                       near.empty() ? "" : " Did you mean " + near + "?",
                       " Known: ", join(known, ", ")));
}

SynthSample synth_sample(uint64_t seed, int64_t picture, int size) {
  const int64_t photo = picture / kPicturesPerPhoto;
  SynthSample sample{.image = draw_background(seed, photo, size, size),
                     .pose = draw_pose(seed, picture)};
  const ScenePlacement place = draw_placement(seed, picture, size, size, 0.36, 0.06);
  render(head_model(draw_person(seed, photo)), sample.pose, place, draw_light(seed, photo),
         sample.image);
  add_noise(seed, picture, sample.image);
  return sample;
}

SynthSummary synth(const std::string& name, const SynthOptions& options,
                   const ReportProgress& progress) {
  const auto start = std::chrono::steady_clock::now();
  const catalog::TaskEntry& task = synth_task(name);
  SynthSummary summary;
  summary.samples = options.samples.value_or(task.generated.samples);
  check(task, options, summary.samples);
  summary.size = options.size > 0 ? options.size : default_size(options.layout);
  std::optional<NewFolder> folder;
  if (makes_folder(options.layout)) folder.emplace(options.out);
  if (options.layout == "300wlp" || options.layout == "biwi") {
    summary.groups = write_published_heads(options, summary.samples, summary.size, progress);
  } else {
    const auto set = generated(task, options, summary.samples, summary.size);
    for (size_t i = 0; i < set->samples().size(); ++i) ++summary.splits[set->samples()[i].split];
    if (options.layout == "hdf5")
      write_hdf5(*set, options, progress, summary);
    else if (options.layout == "npz")
      write_pointer_npz(*set, options.out, options.max_length, options.threads, progress);
    else
      write_class_folders(*set, options.out, options.threads, progress);
  }
  if (folder) folder->complete();
  summary.seconds = seconds_since(start);
  return summary;
}

}  // namespace dtrain::synth
