#include "convert/convert.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "catalog/catalog.h"
#include "convert/head_pose.h"
#include "convert/raw_set.h"
#include "convert/spool.h"
#include "core/check.h"
#include "core/file_system.h"
#include "core/hash.h"
#include "core/parallel.h"
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
  std::string all = str(name, '\n', kContentVersion, '\n', fs::absolute(options.source).string(), '\n');
  for (const int64_t size : set.schema().input.shape) all += str(size, ' ');
  all += '\n' + set.content_key();
  for (const std::string& one : set.classes()) all += '\n' + one;
  for (const RawSample& sample : set.samples()) all += '\n' + sample.name;
  return xxh64(std::as_bytes(std::span(all)));
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
int64_t version_of(const fs::path& source, const RawSample& sample) {
  struct stat status {};
  if (::stat((source / sample.name).c_str(), &status) != 0) return 0;
  return int64_t{status.st_ctim.tv_sec} * 1'000'000'000 + status.st_ctim.tv_nsec;
}

void read_one(const RawSet& set, int64_t sample, int64_t version, Spool& spool) {
  Record record;
  try {
    record = set.read(static_cast<size_t>(sample));
  } catch (const DataError& error) {
    spool.damaged(sample, error.what());
    return;
  } catch (const std::bad_alloc&) {
    spool.damaged(sample, "does not fit into memory");
    return;
  }
  if (record.beyond_range)
    spool.beyond_range(sample, version);
  else
    spool.keep(sample, record.input, record.target, version);
}

// Reads all samples that are in a split and not yet in the spool.
void read_all(const RawSet& set, const std::vector<std::string>& splits, const ConvertOptions& options, Spool& spool,
              const ReportProgress& report) {
  std::vector<int64_t> open;
  int64_t resumed = 0;
  for (size_t i = 0; i < splits.size(); ++i) {
    if (splits[i].empty()) continue;
    if (spool.outcome(static_cast<int64_t>(i)).kind == Outcome::Kind::kOpen)
      open.push_back(static_cast<int64_t>(i));
    else
      ++resumed;
  }
  parallel_for(static_cast<int64_t>(open.size()), options.threads,
               [&](int64_t i) {
                 const int64_t sample = open[static_cast<size_t>(i)];
                 const RawSample& named = set.samples()[static_cast<size_t>(sample)];
                 read_one(set, sample, version_of(options.source, named), spool);
               },
               report, {.stage = "reading", .done = resumed, .resumed = resumed});
}

// Counts the samples of other splits that are identical to a training sample.
int64_t count_repeated(const std::vector<std::string>& splits, const Spool& spool) {
  std::set<std::pair<uint64_t, int64_t>> trained;
  int64_t repeated = 0;
  for (const bool training : {true, false}) {
    for (size_t i = 0; i < splits.size(); ++i) {
      const Outcome& outcome = spool.outcome(static_cast<int64_t>(i));
      if (outcome.kind != Outcome::Kind::kKept || (splits[i] == "train") != training) continue;
      const std::pair key(outcome.checksum, outcome.input_bytes);
      if (training)
        trained.insert(key);
      else
        repeated += static_cast<int64_t>(trained.count(key));
    }
  }
  return repeated;
}

ConvertSummary summarise(const RawSet& set, const std::vector<std::string>& splits, const Spool& spool) {
  ConvertSummary summary;
  summary.found = static_cast<int64_t>(set.samples().size());
  summary.resumed = spool.resumed();
  summary.straddling_groups = straddling_groups(set.samples(), splits);
  summary.repeated = count_repeated(splits, spool);
  for (const std::string& name : set.classes()) summary.classes.emplace_back(name, 0);
  int64_t bytes = 0;
  for (size_t i = 0; i < splits.size(); ++i) {
    const Outcome& outcome = spool.outcome(static_cast<int64_t>(i));
    if (splits[i].empty()) {
      ++summary.unlisted;
    } else if (outcome.kind == Outcome::Kind::kKept) {
      ++summary.kept;
      ++summary.splits[splits[i]];
      bytes += outcome.input_bytes;
      const int64_t label = set.samples()[i].label;
      if (label >= 0) ++summary.classes[static_cast<size_t>(label)].second;
    } else if (outcome.kind == Outcome::Kind::kBeyondRange) {
      ++summary.beyond_range;
    } else {
      summary.quarantined.push_back({set.samples()[i].name, outcome.reason});
    }
  }
  summary.schema = set.schema();
  summary.schema.samples = summary.kept;
  if (summary.kept > 0) {
    summary.mean_rows =
        static_cast<double>(bytes / summary.schema.input.row_bytes()) / static_cast<double>(summary.kept);
  }
  return summary;
}

void write_quarantine(const fs::path& out, ConvertSummary& summary) {
  const fs::path file = quarantine_file(out);
  if (summary.quarantined.empty()) {
    std::error_code ignored;
    fs::remove(file, ignored);  // the list of an earlier conversion
    return;
  }
  nlohmann::ordered_json samples = nlohmann::ordered_json::array();
  for (const Quarantined& entry : summary.quarantined)
    samples.push_back({{"name", entry.name}, {"reason", entry.reason}});
  const nlohmann::ordered_json json{{"file", out.filename().string()}, {"quarantined", samples}};
  write_atomically(real_file_system(), file,
                   json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
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
                            " can be used: ", summary.quarantined.size(), " damaged, ");
  if (summary.beyond_range > 0) message += str(summary.beyond_range, " beyond ±", kLargestAngle, " degrees, ");
  return message + str(summary.unlisted, " in no list.") + first_damage(summary);
}

// Why the samples do not make a data set; "" if they do. This is known only after all samples are read, because all
// samples, or all samples of a class, may be damaged.
std::string defect(const ConvertOptions& options, const RawSet& set, const std::vector<std::string>& splits,
                   const Spool& spool, const ConvertSummary& summary) {
  const bool all_given = !options.classes.empty();  // then a data set for evaluation may lack some of them
  if (summary.kept == 0) return nothing_left(options.source, summary);
  std::vector<int64_t> trained(summary.classes.size());
  std::vector<bool> found(summary.classes.size());
  for (size_t i = 0; i < splits.size(); ++i) {
    const int64_t label = set.samples()[i].label;
    if (label >= 0 && !splits[i].empty()) found[static_cast<size_t>(label)] = true;
    if (label < 0 || spool.outcome(static_cast<int64_t>(i)).kind != Outcome::Kind::kKept) continue;
    if (splits[i] == "train") ++trained[static_cast<size_t>(label)];
  }
  const bool training = summary.splits.contains("train");
  for (size_t label = 0; label < trained.size(); ++label) {
    const auto& [name, kept] = summary.classes[label];
    if (kept > 0 && (trained[label] > 0 || !training || all_given)) continue;
    if (all_given && !found[label]) continue;
    return str("no usable sample of the class ", name, kept > 0 ? " is in the training split" : "", ".",
               first_damage(summary));
  }
  return "";
}

std::string protocol_of(const RawSet& set, const SplitOptions& options, const data::Writer::Extras& extras) {
  if (options.by_list()) return "splits by the lists given";
  std::vector<std::string> tested;
  const auto test = extras.splits.find("test");
  if (test != extras.splits.end()) {
    for (const int64_t id : test->second) tested.push_back(extras.source[static_cast<size_t>(id)]);
  }
  return set.protocol(tested);
}

void assemble(const std::string& name, const ConvertOptions& options, const RawSet& set,
              const std::vector<std::string>& splits, const Spool& spool, const ReportProgress& report,
              ConvertSummary& summary) {
  std::vector<int64_t> kept, input_rows, target_rows;
  const data::Schema& schema = summary.schema;
  for (size_t i = 0; i < splits.size(); ++i) {
    const Outcome& outcome = spool.outcome(static_cast<int64_t>(i));
    if (splits[i].empty() || outcome.kind != Outcome::Kind::kKept) continue;
    kept.push_back(static_cast<int64_t>(i));
    if (schema.input.variable()) input_rows.push_back(outcome.input_bytes / schema.input.row_bytes());
    if (schema.target.variable()) target_rows.push_back(outcome.target_bytes / schema.target.row_bytes());
  }
  const auto writer = data::Writer::create(options.out, schema, input_rows, target_rows);
  data::Writer::Extras extras;
  extras.attributes = set.attributes();
  extras.attributes["source"] = name;
  extras.attributes["samples_quarantined"] = static_cast<int64_t>(summary.quarantined.size());
  if (schema.task == "headpose") extras.attributes["samples_beyond_range"] = summary.beyond_range;
  if (!set.classes().empty()) extras.attributes["class_names"] = join(set.classes(), "\n");
  std::map<std::string, int64_t> group_ids;
  for (const int64_t i : kept) {
    const RawSample& sample = set.samples()[static_cast<size_t>(i)];
    extras.splits[splits[static_cast<size_t>(i)]].push_back(static_cast<int64_t>(extras.source.size()));
    extras.source.push_back(sample.name);
    extras.group.push_back(group_ids.emplace(sample.group, static_cast<int64_t>(group_ids.size())).first->second);
  }
  summary.groups = static_cast<int64_t>(group_ids.size());
  const std::string protocol = protocol_of(set, options.split, extras);
  if (!protocol.empty()) extras.attributes["protocol"] = protocol;
  parallel_for(summary.kept, options.threads,
               [&](int64_t id) {
                 const int64_t sample = kept[static_cast<size_t>(id)];
                 const std::vector<std::byte> bytes = spool.read(sample);
                 const auto input = static_cast<size_t>(spool.outcome(sample).input_bytes);
                 writer->write(id, std::span(bytes).first(input), std::span(bytes).subspan(input));
               },
               report, {.stage = "writing"});
  writer->finish(extras);
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
  const std::vector<std::string> splits = assign_splits(*set, options.split);
  const fs::path partial = partial_folder(options.out);
  const ConvertPlan planned = plan(options.out, partial, *set);
  if (begin) begin(planned);
  refuse_if_it_does_not_fit(planned, options.out);

  Spool spool(partial, fingerprint(name, options, *set), planned.samples,
              [&](int64_t sample) { return version_of(options.source, set->samples()[static_cast<size_t>(sample)]); });
  remove_abandoned(options.out);  // before the new one needs the space
  read_all(*set, splits, options, spool, progress);

  ConvertSummary summary = summarise(*set, splits, spool);
  write_quarantine(options.out, summary);
  if (const std::string why = defect(options, *set, splits, spool, summary); !why.empty()) {
    spool.remove();
    throw DataError(why);
  }
  assemble(name, options, *set, splits, spool, progress, summary);
  spool.remove();
  summary.seconds = seconds_since(start);
  return summary;
}

}  // namespace dtrain::convert
