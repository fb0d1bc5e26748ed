#include "data/convert/convert.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/check.h"
#include "core/file_system.h"
#include "core/hash.h"
#include "core/strings.h"
#include "data/convert/parallel.h"
#include "data/convert/spool.h"
#include "data/writer.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;
constexpr int kLargestSize = 4096;
constexpr uint64_t kPixelVersion = 1;  // of crop and scaling: a spool of another one is not gone on with

std::unique_ptr<RawSet> open_raw_set(const std::string& name, const ConvertOptions& options) {
  if (!fs::is_directory(options.folder)) {
    throw DataError(str("no such folder: ", options.folder.string(), " (the folder of the published data set)"));
  }
  if (name == "300wlp") return open_300wlp(options.folder);
  if (name == "aflw2000") return open_aflw2000(options.folder);
  DTRAIN_CHECK(name == "biwi");
  return open_biwi(options.folder, options.test_sequences);
}

void check(const std::string& name, const ConvertOptions& options) {
  if (std::count(converter_names().begin(), converter_names().end(), name) == 0) {
    const std::string near = nearest(name, converter_names());
    throw UsageError(str("unknown data set ", name, ".", near.empty() ? "" : " Did you mean " + near + "?",
                         " Known: ", join(converter_names(), ", ")));
  }
  if (options.size < 1 || options.size > kLargestSize) {
    throw UsageError(str("--size ", options.size, " is not between 1 and ", kLargestSize));
  }
  if (!(options.split.test_share >= 0 && options.split.test_share < 1)) {
    throw UsageError(str("--test-share ", options.split.test_share, " is not in [0, 1)"));
  }
  if (fs::exists(options.out) && !options.force) {
    throw OutputError(str(options.out.string(), " exists. Give another --out, or --force to replace it"));
  }
}

uint64_t fingerprint(const std::string& name, const ConvertOptions& options, const RawSet& set) {
  std::string all = str(name, '\n', kPixelVersion, '\n', options.size, '\n', fs::absolute(options.folder).string());
  for (const RawSample& sample : set.samples()) all += '\n' + sample.name;
  return xxh64(std::as_bytes(std::span(all)));
}

// Spool and result lie side by side for a moment: said now rather than after an hour.
void check_space(const fs::path& out, int64_t bytes_of_all) {
  const fs::path folder = out.has_parent_path() ? out.parent_path() : ".";
  real_file_system().create_folders(folder);
  std::error_code unknown;
  const fs::space_info space = fs::space(folder, unknown);
  const double needed = 2.0 * static_cast<double>(bytes_of_all);
  if (!unknown && static_cast<double>(space.available) < needed) {
    throw OutputError(str("not enough space in ", folder.string(), ": ", human_bytes(needed), " needed, ",
                          human_bytes(static_cast<double>(space.available)),
                          " free. Free some, choose another disk with --out, or a smaller --size"));
  }
}

void remove_leftovers(const fs::path& out) {  // temporary files of a writer that was killed
  const std::string prefix = out.filename().string() + ".tmp";
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(out.has_parent_path() ? out.parent_path() : ".", ignored)) {
    if (entry.path().filename().string().starts_with(prefix)) fs::remove(entry.path(), ignored);
  }
}

void read_one(const RawSet& set, int64_t sample, int size, Spool& spool) {
  LabelledImage labelled;
  try {
    labelled = set.read(set.samples()[static_cast<size_t>(sample)], size);
  } catch (const DataError& error) {
    spool.damaged(sample, error.what());
    return;
  }
  const HeadPose& pose = labelled.pose;
  const Target target{static_cast<float>(pose.yaw), static_cast<float>(pose.pitch), static_cast<float>(pose.roll)};
  if (within_range(pose))
    spool.keep(sample, std::as_bytes(std::span(labelled.image.rgb)), target);
  else
    spool.beyond_range(sample, target);
}

// All samples that are in a split and not yet in the spool.
void read_all(const RawSet& set, const std::vector<std::string>& splits, const ConvertOptions& options, Spool& spool,
              const std::function<void(const ConvertProgress&)>& report) {
  std::vector<int64_t> open;
  ConvertProgress progress;
  for (size_t i = 0; i < splits.size(); ++i) {
    if (splits[i].empty()) continue;
    ++progress.total;
    if (spool.outcome(static_cast<int64_t>(i)).kind == Outcome::Kind::kOpen) open.push_back(static_cast<int64_t>(i));
  }
  progress.resumed = progress.total - static_cast<int64_t>(open.size());
  const auto start = std::chrono::steady_clock::now();
  parallel_for(
      static_cast<int64_t>(open.size()), options.threads,
      [&](int64_t i) { read_one(set, open[static_cast<size_t>(i)], options.size, spool); },
      [&](int64_t done) {
        progress.done = progress.resumed + done;
        progress.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        if (report) report(progress);
      });
}

ConvertSummary summarise(const RawSet& set, const std::vector<std::string>& splits, const Spool& spool) {
  ConvertSummary summary;
  summary.found = static_cast<int64_t>(set.samples().size());
  summary.resumed = spool.resumed();
  summary.straddling_groups = straddling_groups(set.samples(), splits);
  for (size_t i = 0; i < splits.size(); ++i) {
    const Outcome& outcome = spool.outcome(static_cast<int64_t>(i));
    if (splits[i].empty()) {
      ++summary.unlisted;
    } else if (outcome.kind == Outcome::Kind::kKept) {
      ++summary.kept;
      ++summary.splits[splits[i]];
    } else if (outcome.kind == Outcome::Kind::kBeyondRange) {
      ++summary.beyond_range;
    } else {
      summary.quarantined.push_back({set.samples()[i].name, outcome.reason});
    }
  }
  return summary;
}

void write_quarantine(const fs::path& out, ConvertSummary& summary) {
  const fs::path file = out.string() + ".quarantine.json";
  if (summary.quarantined.empty()) {
    std::error_code ignored;
    fs::remove(file, ignored);  // of an earlier conversion
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

void refuse_if_nothing_is_left(const fs::path& folder, const ConvertSummary& summary) {
  if (summary.kept > 0) return;
  std::string message = str("none of the ", summary.found, " samples in ", folder.string(),
                            " can be used: ", summary.quarantined.size(), " damaged, ", summary.beyond_range,
                            " beyond ±", kLargestAngle, " degrees, ", summary.unlisted, " in no list.");
  if (!summary.quarantined.empty()) {
    message += str(" The first: ", summary.quarantined[0].name, ": ", summary.quarantined[0].reason, ". All in ",
                   summary.quarantine_file.string());
  }
  throw DataError(message);
}

void assemble(const std::string& name, const ConvertOptions& options, const RawSet& set,
              const std::vector<std::string>& splits, const Spool& spool, ConvertSummary& summary) {
  const Schema schema{.task = "headpose",
                      .input = {Element::kUint8, {options.size, options.size, 3}},
                      .target = {Element::kFloat32, {3}},
                      .samples = summary.kept,
                      .checksum = 0};
  const auto writer = Writer::create(options.out, schema);
  Writer::Extras extras;
  extras.attributes = {{"source", name},
                       {"target_names", "yaw,pitch,roll"},
                       {"target_unit", "degree"},
                       {"samples_beyond_range", std::to_string(summary.beyond_range)},
                       {"samples_quarantined", std::to_string(summary.quarantined.size())}};
  std::map<std::string, int64_t> group_ids;
  std::vector<std::byte> bytes(static_cast<size_t>(schema.input.row_bytes()));
  for (size_t i = 0; i < splits.size(); ++i) {
    const Outcome& outcome = spool.outcome(static_cast<int64_t>(i));
    if (splits[i].empty() || outcome.kind != Outcome::Kind::kKept) continue;
    const auto id = static_cast<int64_t>(extras.source.size());
    spool.read(static_cast<int64_t>(i), bytes);
    writer->write(id, bytes, std::as_bytes(std::span(outcome.target)));
    const RawSample& sample = set.samples()[i];
    extras.source.push_back(sample.name);
    extras.group.push_back(group_ids.emplace(sample.group, static_cast<int64_t>(group_ids.size())).first->second);
    extras.splits[splits[i]].push_back(id);
  }
  summary.groups = static_cast<int64_t>(group_ids.size());
  writer->finish(extras);
}

}  // namespace

const std::vector<std::string>& converter_names() {
  static const std::vector<std::string> names{"300wlp", "aflw2000", "biwi"};
  return names;
}

ConvertSummary convert(const std::string& name, const ConvertOptions& options,
                       const std::function<void(const ConvertProgress&)>& progress) {
  const auto start = std::chrono::steady_clock::now();
  check(name, options);
  const auto set = open_raw_set(name, options);
  const std::vector<std::string> splits = assign_splits(*set, options.split);
  const fs::path partial = options.out.string() + ".partial";
  const int64_t slot_bytes = int64_t{3} * options.size * options.size;
  const auto samples = static_cast<int64_t>(set->samples().size());
  if (!fs::exists(partial)) check_space(options.out, samples * slot_bytes);
  remove_leftovers(options.out);

  Spool spool(partial, fingerprint(name, options, *set), samples, slot_bytes);
  read_all(*set, splits, options, spool, progress);

  ConvertSummary summary = summarise(*set, splits, spool);
  write_quarantine(options.out, summary);
  refuse_if_nothing_is_left(options.folder, summary);
  assemble(name, options, *set, splits, spool, summary);
  spool.remove();
  summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return summary;
}

}  // namespace dtrain::data
