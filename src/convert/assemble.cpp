#include "convert/assemble.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <utility>

#include "convert/sample_runs.h"
#include "data/hdf5/writer.h"
#include "os/file_descriptor.h"
#include "os/file_system.h"
#include "text/strings.h"

namespace dtrain::convert {
namespace {

namespace fs = std::filesystem;

// The samples that are stored: their ids are their places in order.
class Stored {
 public:
  Stored(const std::vector<Split>& splits, const Spool& spool, int64_t count)
      : spool_(spool), count_(count) {
    if (count == spool.samples()) return;
    samples_.reserve(static_cast<size_t>(count));
    spool.for_each([&](int64_t sample, const SampleOutcome& outcome) {
      if (outcome.kind != SampleOutcome::Kind::kKept ||
          splits[static_cast<size_t>(sample)] == Split::kNone)
        return;
      samples_.push_back(static_cast<uint32_t>(sample));
    });
  }
  int64_t count() const { return count_; }
  size_t sample(int64_t id) const {
    const auto at = static_cast<size_t>(id);
    return samples_.empty() ? at : samples_[at];
  }
  // The outcome of each sample below `end`, for one that asks for them in order.
  std::function<SampleOutcome(int64_t id)> outcomes(int64_t end) const {
    const int64_t last = end == 0 ? -1 : static_cast<int64_t>(sample(end - 1));
    return
        [this, last, first = int64_t{0}, piece = std::vector<SampleOutcome>()](int64_t id) mutable {
          constexpr int64_t kPiece = 4096;
          const auto sample = static_cast<int64_t>(this->sample(id));
          if (sample < first || sample >= first + static_cast<int64_t>(piece.size())) {
            first = sample;
            piece = spool_.outcomes(first, std::min(kPiece, last + 1 - first));
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
  // One per group of the list, counted as they appear; empty: each sample is its own group
  std::vector<uint32_t> group_ids{};
  int64_t groups = 0;
};

// `counts`: samples by split.
Belonging belonging(const SampleList& samples, const std::vector<Split>& splits,
                    const Stored& stored, const std::map<std::string, int64_t>& counts) {
  constexpr auto kNone = std::numeric_limits<uint32_t>::max();
  Belonging result{.groups = stored.count()};
  std::array<std::vector<uint32_t>, names_of(Split{}).size()> ids;
  for (const Split split : {Split::kTrain, Split::kVal, Split::kTest}) {
    const auto found = counts.find(std::string(name_of(split)));
    if (found != counts.end())
      ids[static_cast<size_t>(split)].reserve(static_cast<size_t>(found->second));
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
    for (const uint32_t id : test->second)
      tested.push_back(static_cast<uint32_t>(stored.sample(id)));
  }
  return set.protocol(tested);
}

// Copies samples from id `first` to the file. Those that follow each other in the spool are
// read together.
void copy_run(const Stored& stored, const Spool& spool, int64_t first, int64_t count,
              data::Writer& writer) {
  const auto outcome_of = stored.outcomes(first + count);
  std::vector<SampleOutcome> run;
  std::vector<data::Writer::Sample> samples;
  const auto copy = [&](int64_t end) {
    if (run.empty()) return;
    const std::vector<std::byte> bytes = spool.read(run);
    for (const SampleOutcome& outcome : run) {
      const auto input =
          std::span(bytes).subspan(static_cast<size_t>(outcome.offset - run.front().offset),
                                   static_cast<size_t>(outcome.input_bytes));
      samples.push_back(
          {input, {input.data() + input.size(), static_cast<size_t>(outcome.target_bytes)}});
    }
    writer.write(end - static_cast<int64_t>(run.size()), samples);
    run.clear();
    samples.clear();
  };
  for (int64_t id = first; id < first + count; ++id) {
    const SampleOutcome outcome = outcome_of(id);
    if (!run.empty()) {
      const SampleOutcome& last = run.back();
      if (outcome.offset != last.offset + last.input_bytes + last.target_bytes) copy(id);
    }
    run.push_back(outcome);
  }
  copy(first + count);
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
  std::string text =
      str("{\n  \"file\": ", json_of(out.filename().string()), ",\n  \"quarantined\": [");
  const auto flush = [&] {
    check("write", list.write_all(std::as_bytes(std::span(text))));
    text.clear();
  };
  const char* separator = "";
  spool.for_each([&](int64_t sample, const SampleOutcome& outcome) {
    if (outcome.kind != SampleOutcome::Kind::kDamaged ||
        splits[static_cast<size_t>(sample)] == Split::kNone)
      return;
    text +=
        str(separator,
            "\n    {\n      \"name\": ", json_of(set.samples().name(static_cast<size_t>(sample))),
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

}  // namespace

void assemble(const std::string& name, const ConvertOptions& options, const RawSet& set,
              const std::vector<Split>& splits, const Spool& spool, const ReportProgress& report,
              ConvertSummary& summary) {
  const data::Schema& schema = summary.schema;
  const Stored stored(splits, spool, summary.kept);
  data::Writer::RowCounts rows;
  if (schema.input.variable()) {
    rows.input = [&, outcome = stored.outcomes(summary.kept)](int64_t id) {
      return outcome(id).input_bytes / schema.input.row_bytes();
    };
  }
  if (schema.target.variable()) {
    rows.target = [&, outcome = stored.outcomes(summary.kept)](int64_t id) {
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
  if (set.has_range()) index.attributes["samples_beyond_range"] = summary.beyond_range;
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

void write_quarantine(const fs::path& out, const RawSet& set, const std::vector<Split>& splits,
                      const Spool& spool, ConvertSummary& summary) {
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

}  // namespace dtrain::convert
