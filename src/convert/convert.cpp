#include "convert/convert.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <span>
#include <system_error>

#include "catalog/catalog.h"
#include "convert/assemble.h"
#include "convert/head_pose.h"
#include "convert/raw_set.h"
#include "convert/sample_runs.h"
#include "convert/spool.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/parallel.h"
#include "core/random.h"
#include "os/file_system.h"
#include "text/strings.h"

namespace dtrain::convert {
namespace {

namespace fs = std::filesystem;
constexpr int kLargestSize = 4096;
// Version of decoding, crop and scaling; a spool of another version is not resumed
constexpr uint64_t kContentVersion = 5;

std::unique_ptr<RawSet> open_raw_set(const catalog::DataSetEntry& kind,
                                     const ConvertOptions& options, const ReportProgress& report) {
  const catalog::TaskEntry& task =
      catalog::row(catalog::task_named(options.task.empty() ? kind.task : options.task));
  const int size = options.size > 0 ? options.size : kind.size;
  const FolderOptions folders{.splits = options.splits_from_folders, .classes = options.classes};
  switch (kind.format) {
    case catalog::RawFormat::kArrays:
      return open_arrays(task, options.source, options.classes);
    case catalog::RawFormat::kSets:
      return open_pointer_sets(task, options.source);
    case catalog::RawFormat::kPictures:
      return open_images(task, options.source, size, folders);
    case catalog::RawFormat::kSequences:
      return open_sequences(task, options.source, options.threads, folders, report);
    case catalog::RawFormat::k300wlp:
      return open_300wlp(task, options.source, size);
    case catalog::RawFormat::kAflw2000:
      return open_aflw2000(task, options.source, size);
    case catalog::RawFormat::kBiwi:
      break;
  }
  return open_biwi(task, options.source, size, options.test_sequences);
}

void check_source(const catalog::DataSetEntry& kind, const fs::path& source) {
  std::error_code failed;
  const fs::file_status status = fs::status(source, failed);
  if (status.type() == fs::file_type::none)
    throw DataError(str(source.string(), ": ", failed.message()));
  const bool is_there = fs::exists(status);
  if (kind.folder.empty()) {
    if (!is_there) throw DataError(str("no such file: ", source.string()));
  } else if (!fs::is_directory(status)) {
    throw DataError(str(is_there ? "not a folder: " : "no such folder: ", source.string(),
                        kind.has_classes ? " (the folder with one subfolder for each class)"
                                         : " (the folder of the published data set)"));
  }
}

}  // namespace

std::vector<std::string> array_tasks() {
  return catalog::task_names([](const catalog::TaskEntry& task) { return task.from_arrays; });
}

void check_options(const std::string& name, const ConvertOptions& options) {
  const catalog::DataSetEntry* kind = catalog::data_set_named(name);
  if (kind == nullptr) {
    const std::vector<std::string> known = catalog::data_set_names();
    const std::string near = nearest(name, known);
    throw UsageError(str("unknown data set ", name, ".",
                         near.empty() ? "" : " Did you mean " + near + "?",
                         " Known: ", join(known, ", ")));
  }
  const auto check_given = [&](bool given, bool can_be_used, const char* applies) {
    if (given && !can_be_used) throw UsageError(str(applies, ", not to ", name));
  };
  check_given(!options.test_sequences.empty(), kind->test_sequences,
              "--test-sequences applies only to biwi");
  check_given(options.splits_from_folders.has_value(), kind->splits_from_folders,
              "--splits-from-folders applies only to images and sequence");
  check_given(!options.classes.empty(), kind->has_classes,
              "--classes applies only to images, sequence and arrays");
  check_given(!options.task.empty(), kind->any_task, "--task applies only to arrays");
  if (!options.task.empty()) {
    const std::vector<std::string> known = array_tasks();
    if (std::ranges::count(known, options.task) == 0)
      throw UsageError(str("--task ", options.task, " is not one of ", join(known, ", ")));
  }
  if (options.size < 0 || options.size > kLargestSize) {
    throw UsageError(str("--size ", options.size, " is not between 1 and ", kLargestSize));
  }
  const auto check_share = [](const char* flag, double share) {
    if (!(share >= 0 && share < 1))
      throw UsageError(str(flag, " ", share, " is not in [0, 1)",
                           share == 1 ? "; 1 is for a data set that has the classes of "
                                        "another one (--classes)"
                                      : ""));
  };
  const double val_share = options.split.val_share.value_or(0);
  const bool all_tested =
      options.split.test_share == 1 && val_share == 0 && !options.classes.empty();
  if (!all_tested) check_share("--test-share", options.split.test_share);
  check_share("--val-share", val_share);
  if (!all_tested && options.split.test_share + val_share >= 1) {
    throw UsageError(str("--test-share ", options.split.test_share, " and --val-share ", val_share,
                         " leave nothing to train with"));
  }
  check_source(*kind, options.source);
}

namespace {

uint64_t fingerprint(const std::string& name, const ConvertOptions& options, const RawSet& set) {
  RunningHash hash;
  const auto add = [&](const std::string& text) { hash.add(std::as_bytes(std::span(text))); };
  add(str(name, '\n', kContentVersion, '\n', fs::absolute(options.source).string(), '\n'));
  for (const int64_t size : set.schema().input.shape) add(str(size, ' '));
  add('\n' + set.content_key());
  for (const std::string& one : set.classes()) add('\n' + one);
  for (size_t i = 0; i < set.samples().size(); ++i) add('\n' + set.samples().name(i));
  return hash.value();
}

// What the journal and the file hold for each sample beside its values and its name: a record; a
// checksum, a group, a place in a split and one among the names.
constexpr double kIndexBytes = 56 + 4 * 8;

// Spool and result exist at the same time. Checking the space now avoids a failure after hours.
ConvertPlan plan(const fs::path& out, const fs::path& partial, const RawSet& set) {
  const fs::path folder = out.has_parent_path() ? out.parent_path() : ".";
  real_file_system().create_folders(folder);
  std::error_code unknown;
  const fs::space_info space = fs::space(folder, unknown);
  const auto there = fs::file_size(partial / "samples", unknown);
  const auto bytes = static_cast<double>(set.expected_bytes());
  const size_t samples = set.samples().size();
  const double name =
      samples == 0 ? 0 : static_cast<double>(set.samples().name(samples / 2).size());
  const double needed = 2 * bytes + static_cast<double>(samples) * (kIndexBytes + name);
  return {.samples = static_cast<int64_t>(samples),
          .output_bytes = bytes,
          .working_bytes = std::max(0.0, needed - (unknown ? 0.0 : static_cast<double>(there))),
          .free_bytes = space.available == static_cast<uintmax_t>(-1)
                            ? 0
                            : static_cast<double>(space.available)};
}

void refuse_if_it_does_not_fit(const ConvertPlan& plan, const fs::path& out) {
  if (plan.free_bytes == 0 || plan.free_bytes >= plan.working_bytes) return;
  throw OutputError(
      str("not enough space for ", out.string(), ": ", human_bytes(plan.working_bytes),
          " needed during conversion, ", human_bytes(plan.free_bytes),
          " free. Free some space, choose another disk with --out, or a smaller --size"));
}

// When a sample's file was last changed, in nanoseconds. 0 if the sample is only a part of a file,
// whose changes content_key() detects.
int64_t version_of(const fs::path& source, const RawSet& set, int64_t sample) {
  struct stat status {};
  if (!set.samples_are_files()) return 0;
  if (::stat((source / set.samples().name(static_cast<size_t>(sample))).c_str(), &status) != 0)
    return 0;
  return int64_t{status.st_ctim.tv_sec} * 1'000'000'000 + status.st_ctim.tv_nsec;
}

// A sample as it was read; the bytes that `finished` shows.
struct ReadSample {
  Record record;
  Finished finished;
};

void read_one(const RawSet& set, int64_t sample, const fs::path& source, ReadSample& read) {
  read.finished.version = version_of(source, set, sample);
  try {
    read.record = set.read(static_cast<size_t>(sample));
  } catch (const DataError& error) {
    read.finished = {.kind = SampleOutcome::Kind::kDamaged, .reason = error.what()};
    return;
  } catch (const std::bad_alloc&) {
    read.finished = {.kind = SampleOutcome::Kind::kDamaged, .reason = "does not fit into memory"};
    return;
  }
  if (read.record.beyond_range) {
    read.finished.kind = SampleOutcome::Kind::kBeyondRange;
    return;
  }
  read.finished.input = read.record.input;
  read.finished.target = read.record.target;
}

// Reads all samples that are in a split and not yet in the spool.
void read_all(const RawSet& set, const std::vector<Split>& splits, const ConvertOptions& options,
              Spool& spool, const ReportProgress& report) {
  const auto split_of = [&](int64_t sample) { return splits[static_cast<size_t>(sample)]; };
  int64_t open = 0, resumed = 0;
  spool.for_each([&](int64_t sample, const SampleOutcome& outcome) {
    if (split_of(sample) != Split::kNone)
      ++(outcome.kind == SampleOutcome::Kind::kOpen ? open : resumed);
  });
  const auto read_run = [&](int64_t first, int64_t count) {
    const std::vector<SampleOutcome> outcomes = spool.outcomes(first, count);
    std::vector<ReadSample> samples;
    std::vector<Finished> finished;
    int64_t done = 0;
    const auto keep = [&](int64_t end) {  // the samples that were read since the last call
      for (const ReadSample& sample : samples) finished.push_back(sample.finished);
      if (!finished.empty()) spool.keep(end - static_cast<int64_t>(finished.size()), finished);
      done += static_cast<int64_t>(finished.size());
      samples.clear();
      finished.clear();
    };
    for (int64_t sample = first; sample < first + count; ++sample) {
      const bool wanted =
          outcomes[static_cast<size_t>(sample - first)].kind == SampleOutcome::Kind::kOpen &&
          split_of(sample) != Split::kNone;
      if (!wanted) keep(sample);
      if (wanted) read_one(set, sample, options.source, samples.emplace_back());
    }
    keep(first + count);
    return done;
  };
  for_runs(spool.samples(), samples_in_run(set), options.threads, read_run, open, report,
           {.stage = "reading", .done = resumed, .resumed = resumed});
}

// Counts the samples of other splits that are identical to a training sample. Holds a part of the
// keys at a time.
int64_t count_repeated(const std::vector<Split>& splits, const Spool& spool, int64_t trained,
                       int64_t others) {
  constexpr int64_t kMostKeys = int64_t{32} << 20;
  const auto parts = static_cast<uint64_t>(others > 0 ? (trained + kMostKeys - 1) / kMostKeys : 0);
  int64_t repeated = 0;
  for (uint64_t part = 0; part < parts; ++part) {
    std::vector<uint64_t> keys;
    // Growing would take twice the memory
    keys.reserve(static_cast<size_t>(trained) / parts * 65 / 64 + 1024);
    const auto for_keys = [&](bool training, const std::function<void(uint64_t)>& use) {
      spool.for_each([&](int64_t sample, const SampleOutcome& outcome) {
        const Split split = splits[static_cast<size_t>(sample)];
        if (outcome.kind != SampleOutcome::Kind::kKept || (split == Split::kTrain) != training)
          return;
        const uint64_t key = keyed(outcome.checksum, static_cast<uint64_t>(outcome.input_bytes));
        if (key % parts == part) use(key);
      });
    };
    for_keys(true, [&](uint64_t key) { keys.push_back(key); });
    std::sort(keys.begin(), keys.end());
    for_keys(false, [&](uint64_t key) {
      repeated += std::binary_search(keys.begin(), keys.end(), key) ? 1 : 0;
    });
  }
  return repeated;
}

struct ClassCounts {
  int64_t listed = 0;   // samples in a split, also those that are not kept
  int64_t trained = 0;  // kept samples in the training split
  std::optional<Quarantined> damaged = std::nullopt;  // the first
};

// What was made of the samples, and of those of each class.
ConvertSummary summarise(const RawSet& set, const std::vector<Split>& splits, const Spool& spool,
                         std::vector<ClassCounts>& counts) {
  ConvertSummary summary;
  summary.found = static_cast<int64_t>(set.samples().size());
  summary.resumed = spool.resumed();
  summary.straddling = straddling_groups(set.samples(), splits);
  for (const std::string& name : set.classes()) summary.classes.emplace_back(name, 0);
  counts.assign(summary.classes.size(), {});
  int64_t bytes = 0;
  std::array<int64_t, names_of(Split{}).size()> kept{};
  spool.for_each([&](int64_t sample, const SampleOutcome& outcome) {
    const auto at = static_cast<size_t>(sample);
    // Classes may have no names
    const int64_t label = counts.empty() ? -1 : set.samples().label(at);
    if (label >= 0 && splits[at] != Split::kNone) ++counts[static_cast<size_t>(label)].listed;
    if (splits[at] == Split::kNone) {
      ++summary.unlisted;
    } else if (outcome.kind == SampleOutcome::Kind::kKept) {
      ++summary.kept;
      ++kept[static_cast<size_t>(splits[at])];
      bytes += outcome.input_bytes;
      if (label < 0) return;
      ++summary.classes[static_cast<size_t>(label)].second;
      if (splits[at] == Split::kTrain) ++counts[static_cast<size_t>(label)].trained;
    } else if (outcome.kind == SampleOutcome::Kind::kBeyondRange) {
      ++summary.beyond_range;
    } else {
      const bool is_listed = summary.damaged++ < static_cast<int64_t>(kMostQuarantined),
                 is_first = label >= 0 && !counts[static_cast<size_t>(label)].damaged;
      if (!is_listed && !is_first) return;
      const Quarantined one{set.samples().name(at), spool.reason(outcome)};
      if (is_listed) summary.quarantined.push_back(one);
      if (is_first) counts[static_cast<size_t>(label)].damaged = one;
    }
  });
  for (const Split split : {Split::kTrain, Split::kVal, Split::kTest}) {
    const int64_t count = kept[static_cast<size_t>(split)];
    if (count > 0) summary.splits[std::string(name_of(split))] = count;
  }
  const int64_t of_training = kept[static_cast<size_t>(Split::kTrain)];
  summary.repeated = count_repeated(splits, spool, of_training, summary.kept - of_training);
  summary.schema = set.schema();
  summary.schema.samples = summary.kept;
  if (summary.kept > 0) {
    summary.mean_rows = static_cast<double>(bytes / summary.schema.input.row_bytes()) /
                        static_cast<double>(summary.kept);
  }
  return summary;
}

std::string damage_text(const Quarantined& first, const ConvertSummary& summary) {
  return str(" The first damaged one: ", first.name, ": ", first.reason, ". All are listed in ",
             summary.quarantine_file.string(), ": repair or replace them");
}

std::string nothing_left(const fs::path& source, const ConvertSummary& summary) {
  std::string message = str("none of the ", summary.found, " samples in ", source.string(),
                            " can be used: ", summary.damaged, " damaged, ");
  if (summary.beyond_range > 0)
    message += str(summary.beyond_range, " beyond ±", kLargestAngle, " degrees, ");
  message += str(summary.unlisted, " in no list.");
  return message + (summary.damaged > 0 ? damage_text(summary.quarantined[0], summary) : "");
}

// Why the samples do not make a data set; "" if they do. This is known only after all samples are
// read, because all samples, or all samples of a class, may be damaged.
std::string defect(const ConvertOptions& options, const ConvertSummary& summary,
                   const std::vector<ClassCounts>& counts) {
  // Then a data set for evaluation may lack some of them
  const bool all_given = !options.classes.empty();
  if (summary.kept == 0) return nothing_left(options.source, summary);
  const bool training = summary.splits.contains("train");
  for (size_t label = 0; label < counts.size(); ++label) {
    const auto& [name, kept] = summary.classes[label];
    if (kept > 0 && (counts[label].trained > 0 || !training || all_given)) continue;
    if (all_given && counts[label].listed == 0) continue;
    const std::optional<Quarantined>& damaged = counts[label].damaged;
    return str("no usable sample of the class ", name, kept > 0 ? " is in the training split" : "",
               ".", damaged ? damage_text(*damaged, summary) : " Add samples of it",
               ", or remove the class");
  }
  return "";
}

}  // namespace

ConvertSummary convert(const std::string& name, const ConvertOptions& options,
                       const ReportProgress& progress,
                       const std::function<void(const ConvertPlan&)>& begin) {
  const auto start = std::chrono::steady_clock::now();
  check_options(name, options);
  check_new_file(options.out, options.force);
  const auto set = open_raw_set(*catalog::data_set_named(name), options, progress);
  const std::vector<Split> splits = assign_splits(*set, options.split);
  const fs::path partial = partial_folder(options.out);
  const ConvertPlan planned = plan(options.out, partial, *set);
  if (begin) begin(planned);
  refuse_if_it_does_not_fit(planned, options.out);

  Spool spool(partial, fingerprint(name, options, *set), planned.samples,
              [&](int64_t sample) { return version_of(options.source, *set, sample); });
  remove_abandoned(options.out);  // before the new one needs the space
  read_all(*set, splits, options, spool, progress);

  std::vector<ClassCounts> counts;
  ConvertSummary summary = summarise(*set, splits, spool, counts);
  write_quarantine(options.out, *set, splits, spool, summary);
  if (const std::string why = defect(options, summary, counts); !why.empty()) {
    spool.remove();
    throw DataError(why);
  }
  assemble(name, options, *set, splits, spool, progress, summary);
  spool.remove();
  summary.seconds = seconds_since(start);
  return summary;
}

}  // namespace dtrain::convert
