#include "convert/convert.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>

#include "catalog/catalog.h"
#include "convert/head_pose.h"
#include "convert/raw_set.h"
#include "convert/spool.h"
#include "core/check.h"
#include "core/file_descriptor.h"
#include "core/file_system.h"
#include "core/parallel.h"
#include "core/random.h"
#include "core/running_hash.h"
#include "core/stopwatch.h"
#include "core/strings.h"
#include "data/hdf5/writer.h"

namespace dtrain::convert {
namespace {

namespace fs = std::filesystem;
constexpr int kLargestSize = 4096;
constexpr uint64_t kContentVersion =
    5;  // version of decoding, crop and scaling; a spool of another version is not resumed

std::unique_ptr<RawSet> open_raw_set(const std::string& name, const ConvertOptions& options, int size,
                                     const ReportProgress& report) {
  const catalog::DataSet& kind = *catalog::data_set_named(name);
  if (name == "arrays")
    return open_arrays(options.source, options.task.empty() ? kind.task : options.task, options.classes);
  if (name == "pointer") return open_pointer_sets(options.source);
  const FolderOptions folders{.splits = options.splits_from_folders, .classes = options.classes};
  if (name == "images") return open_images(options.source, size, folders);
  if (name == "sequence") return open_sequences(options.source, options.threads, folders, report);
  if (name == "300wlp") return open_300wlp(options.source, size);
  if (name == "aflw2000") return open_aflw2000(options.source, size);
  DTRAIN_CHECK(name == "biwi");
  return open_biwi(options.source, size, options.test_sequences);
}

void check_source(const catalog::DataSet& kind, const fs::path& source) {
  const catalog::Task& task = catalog::row(catalog::task_named(kind.task));
  const fs::file_status status = fs::status(source);  // throws if it cannot be known
  const bool is_there = fs::exists(status);
  if (kind.folder.empty()) {
    if (!is_there) throw DataError(str("no such file: ", source.string()));
  } else if (!fs::is_directory(status)) {
    throw DataError(str(
        is_there ? "not a folder: " : "no such folder: ", source.string(),
        task.classes ? " (the folder with one subfolder for each class)" : " (the folder of the published data set)"));
  }
}

}  // namespace

void check_options(const std::string& name, const ConvertOptions& options) {
  if (catalog::data_set_named(name) == nullptr) {
    const std::vector<std::string> known = catalog::data_set_names();
    const std::string near = nearest(name, known);
    throw UsageError(str("unknown data set ", name, ".", near.empty() ? "" : " Did you mean " + near + "?",
                         " Known: ", join(known, ", ")));
  }
  if (!options.test_sequences.empty() && name != "biwi")
    throw UsageError("--test-sequences applies only to biwi, not to " + name);
  if (options.splits_from_folders && name != "images" && name != "sequence") {
    throw UsageError("--splits-from-folders applies only to images and sequence, not to " + name);
  }
  if (!options.classes.empty() && name != "images" && name != "sequence" && name != "arrays") {
    throw UsageError("--classes applies only to images, sequence and arrays, not to " + name);
  }
  if (!options.task.empty()) {
    if (name != "arrays") throw UsageError("--task applies only to arrays, not to " + name);
    if (options.task != "module" && options.task != "classify") {
      throw UsageError(str("--task ", options.task, " is neither module nor classify"));
    }
  }
  if (options.size < 0 || options.size > kLargestSize) {
    throw UsageError(str("--size ", options.size, " is not between 1 and ", kLargestSize));
  }
  const auto check_share = [](const char* flag, double share) {
    if (!(share >= 0 && share < 1)) throw UsageError(str(flag, " ", share, " is not in [0, 1)"));
  };
  const double val_share = options.split.val_share.value_or(0);
  const bool all_tested = options.split.test_share == 1 && val_share == 0 && !options.classes.empty();
  if (!all_tested) check_share("--test-share", options.split.test_share);
  check_share("--val-share", val_share);
  if (!all_tested && options.split.test_share + val_share >= 1) {
    throw UsageError(
        str("--test-share ", options.split.test_share, " and --val-share ", val_share, " leave nothing to train with"));
  }
  check_source(*catalog::data_set_named(name), options.source);
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

// Spool and result exist at the same time. Checking the space now avoids a failure after hours.
ConvertPlan plan(const fs::path& out, const fs::path& partial, const RawSet& set) {
  const fs::path folder = out.has_parent_path() ? out.parent_path() : ".";
  real_file_system().create_folders(folder);
  std::error_code unknown;
  const fs::space_info space = fs::space(folder, unknown);
  const auto there = fs::file_size(partial / "samples", unknown);
  const auto bytes = static_cast<double>(set.expected_bytes());
  return {.samples = static_cast<int64_t>(set.samples().size()),
          .output_bytes = bytes,
          .working_bytes = std::max(0.0, 2 * bytes - (unknown ? 0.0 : static_cast<double>(there))),
          .free_bytes = space.available == static_cast<uintmax_t>(-1) ? 0 : static_cast<double>(space.available)};
}

void refuse_if_it_does_not_fit(const ConvertPlan& plan, const fs::path& out) {
  if (plan.free_bytes == 0 || plan.free_bytes >= plan.working_bytes) return;
  throw OutputError(str("not enough space for ", out.string(), ": ", human_bytes(plan.working_bytes),
                        " needed during conversion, ", human_bytes(plan.free_bytes),
                        " free. Free some space, choose another disk with --out, or a smaller --size"));
}

// When a sample's file was last changed, in nanoseconds. 0 if the sample is only a part of a file, whose changes
// content_key() detects.
int64_t version_of(const fs::path& source, const RawSet& set, int64_t sample) {
  struct stat status {};
  if (!set.samples_are_files()) return 0;
  if (::stat((source / set.samples().name(static_cast<size_t>(sample))).c_str(), &status) != 0) return 0;
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
    read.finished = {.kind = Outcome::Kind::kDamaged, .reason = error.what()};
    return;
  } catch (const std::bad_alloc&) {
    read.finished = {.kind = Outcome::Kind::kDamaged, .reason = "does not fit into memory"};
    return;
  }
  if (read.record.beyond_range) {
    read.finished.kind = Outcome::Kind::kBeyondRange;
    return;
  }
  read.finished.input = read.record.input;
  read.finished.target = read.record.target;
}

// Samples that are read and written together. Small parts of one file are in runs, because each run costs a few calls
// of the system; a file has a run of its own, so that an interruption loses no file that was read.
int64_t samples_in_run(const RawSet& set) {
  constexpr int64_t kRunBytes = 1 << 18, kMost = 1024;
  if (set.samples_are_files()) return 1;
  const int64_t each = set.expected_bytes() / static_cast<int64_t>(std::max<size_t>(set.samples().size(), 1));
  return std::clamp<int64_t>(kRunBytes / std::max<int64_t>(each, 1), 1, kMost);
}

// Calls work(first, count) for runs of samples on several threads. `counts(first, count)`: how many of them `progress`
// is about.
void for_runs(int64_t samples, int64_t in_run, int threads, const std::function<int64_t(int64_t, int64_t)>& work,
              int64_t total, const ReportProgress& report, const Progress& start) {
  std::atomic<int64_t> done{0};
  const auto report_samples = [&](const Progress&) {
    Progress now = start;
    now.done += done;
    now.total = start.done + total;
    report(now);
  };
  parallel_for((samples + in_run - 1) / in_run, threads,
               [&](int64_t run) { done += work(run * in_run, std::min(in_run, samples - run * in_run)); },
               report ? ReportProgress(report_samples) : report);
}

// Reads all samples that are in a split and not yet in the spool.
void read_all(const RawSet& set, const std::vector<Split>& splits, const ConvertOptions& options, Spool& spool,
              const ReportProgress& report) {
  const auto split_of = [&](int64_t sample) { return splits[static_cast<size_t>(sample)]; };
  int64_t open = 0, resumed = 0;
  spool.for_each([&](int64_t sample, const Outcome& outcome) {
    if (split_of(sample) != Split::kNone) ++(outcome.kind == Outcome::Kind::kOpen ? open : resumed);
  });
  const auto read_run = [&](int64_t first, int64_t count) {
    const std::vector<Outcome> outcomes = spool.outcomes(first, count);
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
      const bool wanted = outcomes[static_cast<size_t>(sample - first)].kind == Outcome::Kind::kOpen &&
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

// Counts the samples of other splits that are identical to a training sample. Holds a part of the keys at a time.
int64_t count_repeated(const std::vector<Split>& splits, const Spool& spool, int64_t trained, int64_t others) {
  constexpr int64_t kMostKeys = int64_t{16} << 20;
  const auto parts = static_cast<uint64_t>(others > 0 ? (trained + kMostKeys - 1) / kMostKeys : 0);
  int64_t repeated = 0;
  for (uint64_t part = 0; part < parts; ++part) {
    std::vector<uint64_t> keys;
    const auto for_keys = [&](bool training, const std::function<void(uint64_t)>& use) {
      spool.for_each([&](int64_t sample, const Outcome& outcome) {
        const Split split = splits[static_cast<size_t>(sample)];
        if (outcome.kind != Outcome::Kind::kKept || (split == Split::kTrain) != training) return;
        const uint64_t key = keyed(outcome.checksum, static_cast<uint64_t>(outcome.input_bytes));
        if (key % parts == part) use(key);
      });
    };
    for_keys(true, [&](uint64_t key) { keys.push_back(key); });
    std::sort(keys.begin(), keys.end());
    for_keys(false, [&](uint64_t key) { repeated += std::binary_search(keys.begin(), keys.end(), key) ? 1 : 0; });
  }
  return repeated;
}

struct ClassCounts {
  int64_t listed = 0;   // samples in a split, also those that are not kept
  int64_t trained = 0;  // kept samples in the training split
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
  spool.for_each([&](int64_t sample, const Outcome& outcome) {
    const auto at = static_cast<size_t>(sample);
    const int64_t label = set.samples().label(at);
    if (label >= 0 && splits[at] != Split::kNone) ++counts[static_cast<size_t>(label)].listed;
    if (splits[at] == Split::kNone) {
      ++summary.unlisted;
    } else if (outcome.kind == Outcome::Kind::kKept) {
      ++summary.kept;
      ++kept[static_cast<size_t>(splits[at])];
      bytes += outcome.input_bytes;
      if (label < 0) return;
      ++summary.classes[static_cast<size_t>(label)].second;
      if (splits[at] == Split::kTrain) ++counts[static_cast<size_t>(label)].trained;
    } else if (outcome.kind == Outcome::Kind::kBeyondRange) {
      ++summary.beyond_range;
    } else if (summary.damaged++ < static_cast<int64_t>(kMostQuarantined)) {
      summary.quarantined.push_back({set.samples().name(at), spool.reason(outcome)});
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
    summary.mean_rows =
        static_cast<double>(bytes / summary.schema.input.row_bytes()) / static_cast<double>(summary.kept);
  }
  return summary;
}

std::string json_of(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Writes the list of damaged samples piece by piece, as write_atomically() does with a whole text.
void write_list_of_damaged(const fs::path& file, const fs::path& out, const RawSet& set,
                           const std::vector<Split>& splits, const Spool& spool) {
  constexpr size_t kPiece = size_t{1} << 20;
  const fs::path temporary = temporary_name(file);
  const auto check = [&](const char* operation, int code) {
    if (code != 0) fail_to_write(operation, temporary, code);
  };
  FileDescriptor list;
  check("create", list.open(temporary, O_WRONLY | O_CREAT | O_TRUNC));
  std::string text = str("{\n  \"file\": ", json_of(out.filename().string()), ",\n  \"quarantined\": [");
  const auto flush = [&] {
    check("write", list.write_all(std::as_bytes(std::span(text))));
    text.clear();
  };
  const char* separator = "";
  spool.for_each([&](int64_t sample, const Outcome& outcome) {
    if (outcome.kind != Outcome::Kind::kDamaged || splits[static_cast<size_t>(sample)] == Split::kNone) return;
    text += str(separator, "\n    {\n      \"name\": ", json_of(set.samples().name(static_cast<size_t>(sample))),
                ",\n      \"reason\": ", json_of(spool.reason(outcome)), "\n    }");
    separator = ",";
    if (text.size() >= kPiece) flush();
  });
  text += "\n  ]\n}\n";
  flush();
  check("fsync", list.sync());
  check("close", list.close());
  put_in_place(real_file_system(), temporary, file);
}

void write_quarantine(const fs::path& out, const RawSet& set, const std::vector<Split>& splits, const Spool& spool,
                      ConvertSummary& summary) {
  const fs::path file = quarantine_file(out);
  if (summary.damaged == 0) {
    std::error_code ignored;
    fs::remove(file, ignored);  // the list of an earlier conversion
    return;
  }
  try {
    write_list_of_damaged(file, out, set, splits, spool);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary_name(file), ignored);
    throw;
  }
  summary.quarantine_file = file;
}

std::string first_damage(const ConvertSummary& summary) {
  if (summary.quarantined.empty()) return "";
  const Quarantined& first = summary.quarantined[0];
  return str(" The first one: ", first.name, ": ", first.reason, ". All are listed in ",
             summary.quarantine_file.string());
}

std::string nothing_left(const fs::path& source, const ConvertSummary& summary) {
  std::string message = str("none of the ", summary.found, " samples in ", source.string(),
                            " can be used: ", summary.damaged, " damaged, ");
  if (summary.beyond_range > 0) message += str(summary.beyond_range, " beyond ±", kLargestAngle, " degrees, ");
  return message + str(summary.unlisted, " in no list.") + first_damage(summary);
}

// Why the samples do not make a data set; "" if they do. This is known only after all samples are read, because all
// samples, or all samples of a class, may be damaged.
std::string defect(const ConvertOptions& options, const ConvertSummary& summary,
                   const std::vector<ClassCounts>& counts) {
  const bool all_given = !options.classes.empty();  // then a data set for evaluation may lack some of them
  if (summary.kept == 0) return nothing_left(options.source, summary);
  const bool training = summary.splits.contains("train");
  for (size_t label = 0; label < counts.size(); ++label) {
    const auto& [name, kept] = summary.classes[label];
    if (kept > 0 && (counts[label].trained > 0 || !training || all_given)) continue;
    if (all_given && counts[label].listed == 0) continue;
    return str("no usable sample of the class ", name, kept > 0 ? " is in the training split" : "", ".",
               first_damage(summary));
  }
  return "";
}

// The samples that are stored: their ids are their places in order.
class Stored {
 public:
  Stored(const std::vector<Split>& splits, const Spool& spool, int64_t count) : spool_(spool), count_(count) {
    if (count == spool.samples()) return;
    samples_.reserve(static_cast<size_t>(count));
    spool.for_each([&](int64_t sample, const Outcome& outcome) {
      if (outcome.kind != Outcome::Kind::kKept || splits[static_cast<size_t>(sample)] == Split::kNone) return;
      samples_.push_back(static_cast<uint32_t>(sample));
    });
  }
  int64_t count() const { return count_; }
  size_t sample(int64_t id) const {
    const auto at = static_cast<size_t>(id);
    return samples_.empty() ? at : samples_[at];
  }
  // The outcome of each sample, for one that asks for them in order.
  std::function<Outcome(int64_t id)> outcomes() const {
    return [this, first = int64_t{0}, piece = std::vector<Outcome>()](int64_t id) mutable {
      constexpr int64_t kPiece = 4096;
      const auto sample = static_cast<int64_t>(this->sample(id));
      if (sample < first || sample >= first + static_cast<int64_t>(piece.size())) {
        first = sample;
        piece = spool_.outcomes(first, std::min(kPiece, spool_.samples() - first));
      }
      return piece[static_cast<size_t>(sample - first)];
    };
  }

 private:
  const Spool& spool_;
  int64_t count_;
  std::vector<uint32_t> samples_;  // empty: all
};

// What each sample of the file belongs to.
struct Belonging {
  std::map<std::string, std::vector<uint32_t>> splits{};  // ids
  std::vector<uint32_t> group_ids{};                      // by group, counted as they appear; empty: each sample's own
  int64_t groups = 0;
};

// `counts`: samples by split.
Belonging belonging(const SampleList& samples, const std::vector<Split>& splits, const Stored& stored,
                    const std::map<std::string, int64_t>& counts) {
  constexpr auto kNone = std::numeric_limits<uint32_t>::max();
  Belonging result{.groups = stored.count()};
  std::array<std::vector<uint32_t>, names_of(Split{}).size()> ids;
  for (const Split split : {Split::kTrain, Split::kVal, Split::kTest}) {
    const auto found = counts.find(std::string(name_of(split)));
    if (found != counts.end()) ids[static_cast<size_t>(split)].reserve(static_cast<size_t>(found->second));
  }
  for (int64_t id = 0; id < stored.count(); ++id) {
    ids[static_cast<size_t>(splits[stored.sample(id)])].push_back(static_cast<uint32_t>(id));
  }
  for (const Split split : {Split::kTrain, Split::kVal, Split::kTest}) {
    auto& of_split = ids[static_cast<size_t>(split)];
    if (!of_split.empty()) result.splits[std::string(name_of(split))] = std::move(of_split);
  }
  if (samples.own_groups()) return result;
  result.groups = 0;
  result.group_ids.assign(samples.groups(), kNone);
  for (int64_t id = 0; id < stored.count(); ++id) {
    uint32_t& group = result.group_ids[samples.group(stored.sample(id))];
    if (group == kNone) group = static_cast<uint32_t>(result.groups++);
  }
  return result;
}

std::string protocol_of(const RawSet& set, const SplitOptions& options, const Stored& stored,
                        const Belonging& belonging) {
  if (options.by_list()) return "splits by the lists given";
  std::vector<uint32_t> tested;
  const auto test = belonging.splits.find("test");
  if (test != belonging.splits.end()) {
    for (const uint32_t id : test->second) tested.push_back(static_cast<uint32_t>(stored.sample(id)));
  }
  return set.protocol(tested);
}

// Copies samples from id `first` to the file. Those that follow each other in the spool are read together.
void copy_run(const Stored& stored, const Spool& spool, int64_t first, int64_t count, data::Writer& writer) {
  const auto outcome_of = stored.outcomes();
  std::vector<Outcome> run;
  std::vector<data::Writer::Sample> samples;
  const auto copy = [&](int64_t end) {
    if (run.empty()) return;
    const std::vector<std::byte> bytes = spool.read(run);
    for (const Outcome& outcome : run) {
      const auto input = std::span(bytes).subspan(static_cast<size_t>(outcome.offset - run.front().offset),
                                                  static_cast<size_t>(outcome.input_bytes));
      samples.push_back({input, {input.data() + input.size(), static_cast<size_t>(outcome.target_bytes)}});
    }
    writer.write(end - static_cast<int64_t>(run.size()), samples);
    run.clear();
    samples.clear();
  };
  for (int64_t id = first; id < first + count; ++id) {
    const Outcome outcome = outcome_of(id);
    if (!run.empty()) {
      const Outcome& last = run.back();
      if (outcome.offset != last.offset + last.input_bytes + last.target_bytes) copy(id);
    }
    run.push_back(outcome);
  }
  copy(first + count);
}

void assemble(const std::string& name, const ConvertOptions& options, const RawSet& set,
              const std::vector<Split>& splits, const Spool& spool, const ReportProgress& report,
              ConvertSummary& summary) {
  const data::Schema& schema = summary.schema;
  const Stored stored(splits, spool, summary.kept);
  data::Writer::RowCounts rows;
  if (schema.input.variable()) {
    rows.input = [&, outcome = stored.outcomes()](int64_t id) {
      return outcome(id).input_bytes / schema.input.row_bytes();
    };
  }
  if (schema.target.variable()) {
    rows.target = [&, outcome = stored.outcomes()](int64_t id) {
      return outcome(id).target_bytes / schema.target.row_bytes();
    };
  }
  const auto writer = data::Writer::create(options.out, schema, rows);
  const SampleList& samples = set.samples();
  const Belonging parts = belonging(samples, splits, stored, summary.splits);
  summary.groups = parts.groups;
  data::Writer::Index index;
  index.source = {summary.kept, [&](int64_t id) { return samples.name(stored.sample(id)); }};
  index.group = {summary.kept, [&](int64_t id) {
                   if (parts.group_ids.empty()) return id;
                   return int64_t{parts.group_ids[samples.group(stored.sample(id))]};
                 }};
  for (const auto& [split, ids] : parts.splits) {
    index.splits[split] = {static_cast<int64_t>(ids.size()),
                           [&ids](int64_t i) { return int64_t{ids[static_cast<size_t>(i)]}; }};
  }
  index.attributes = set.attributes();
  index.attributes["source"] = name;
  index.attributes["samples_quarantined"] = summary.damaged;
  if (schema.task == "headpose") index.attributes["samples_beyond_range"] = summary.beyond_range;
  if (!set.classes().empty()) index.attributes["class_names"] = join(set.classes(), "\n");
  const std::string protocol = protocol_of(set, options.split, stored, parts);
  if (!protocol.empty()) index.attributes["protocol"] = protocol;
  for_runs(summary.kept, samples_in_run(set), options.threads,
           [&](int64_t first, int64_t count) {
             copy_run(stored, spool, first, count, *writer);
             return count;
           },
           summary.kept, report, {.stage = "writing"});
  writer->finish(index);
}

}  // namespace

fs::path partial_folder(const fs::path& out) { return out.string() + ".partial"; }
fs::path quarantine_file(const fs::path& out) { return out.string() + ".quarantine.json"; }

ConvertSummary convert(const std::string& name, const ConvertOptions& options, const ReportProgress& progress,
                       const std::function<void(const ConvertPlan&)>& begin) {
  const auto start = std::chrono::steady_clock::now();
  check_options(name, options);
  check_new_file(options.out, options.force);
  const int size = options.size > 0 ? options.size : catalog::data_set_named(name)->size;
  const auto set = open_raw_set(name, options, size, progress);
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
