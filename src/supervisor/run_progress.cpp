#include "supervisor/run_progress.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/store.h"
#include "os/file_system.h"
#include "report/bounded_file.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::supervisor {
namespace {

// Bytes. The records of hundreds of steps, or less where others come after them: an evaluation has
// a table.
constexpr int64_t kTail = 256 << 10, kLongestTail = 4 << 20;
constexpr const char* kRecords = "metrics.jsonl";

struct Record : StepAt {
  int64_t offset = 0;  // bytes from the start of the file
};

// Of one line of metrics.jsonl; none if it is no record of a step.
std::optional<StepAt> step_in(std::string_view line) {
  if (line.find("\"kind\":\"step\"") == line.npos) return std::nullopt;
  const auto record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object()) return std::nullopt;
  const auto step = record.find("step"), time = record.find("time");
  if (step == record.end() || !step->is_number_integer()) return std::nullopt;
  if (time == record.end() || !time->is_number()) return std::nullopt;
  return StepAt{step->get<int64_t>(), time->get<double>()};
}

struct Records {
  std::vector<Record> steps;  // the last ones: at least one, if the file has any near its end
  int64_t bytes = 0;          // size of the file
  bool is_known = true;       // false: it is there and cannot be read
};

Records read_records(const std::filesystem::path& file) {
  Records records;
  for (int64_t tail = kTail; tail <= kLongestTail; tail *= 4) {
    const report::FileText read = report::read_tail(file, tail);
    records.bytes = read.size;
    records.is_known = read.problem.empty() || read.missing();
    int64_t offset = read.size - static_cast<int64_t>(read.text.size());
    for (const std::string& line : split(read.text, '\n')) {
      if (const std::optional<StepAt> step = step_in(line))
        records.steps.push_back({*step, offset});
      offset += static_cast<int64_t>(line.size()) + 1;
    }
    const bool is_all = read.size <= tail || !read.problem.empty();
    if (is_all || !records.steps.empty()) break;
  }
  return records;
}

// Step and folder, newest first. A folder that cannot be read has none: the job says so.
std::vector<std::pair<int64_t, std::filesystem::path>> checkpoints_of(
    const std::filesystem::path& run) {
  if (run.empty()) return {};
  try {
    return checkpoint::CheckpointStore(run / "checkpoints", real_file_system(), 1).list();
  } catch (const std::exception&) {
    return {};
  }
}

std::filesystem::path manifest_of(const std::filesystem::path& folder) {
  return folder / checkpoint::kManifestName;
}

std::filesystem::file_time_type written_at(const std::filesystem::path& file) {
  std::error_code unknown;
  return std::filesystem::last_write_time(file, unknown);
}

}  // namespace

int64_t step_at(const std::filesystem::path& checkpoint_or_run) {
  const std::filesystem::path path =
      checkpoint_or_run.has_filename() ? checkpoint_or_run : checkpoint_or_run.parent_path();
  const std::string name = path.filename().string();
  constexpr std::string_view kPrefix = "step_";
  if (!name.starts_with(kPrefix)) {
    const auto saved = checkpoints_of(path);
    return saved.empty() ? -1 : saved.front().first;
  }
  return parse_number<int64_t>(std::string_view(name).substr(kPrefix.size())).value_or(-1);
}

RunProgress::RunProgress(std::filesystem::path run, int64_t from_step)
    : run_(std::move(run)), saved_(newest_step()), begin_(from_step) {}

void RunProgress::begin_job() {
  if (run_.empty()) return;
  const Records records = read_records(run_ / kRecords);
  if (records.is_known) earlier_ = {0, 0};
  earlier_.bytes = std::max(earlier_.bytes, records.bytes);
  earlier_.time = std::max(earlier_.time, last_.time);
  for (const Record& record : records.steps) earlier_.time = std::max(earlier_.time, record.time);
  first_ = last_ = {};
  kept_.clear();
  saved_ = newest_step();
  from_ = std::max(saved_, begin_);
}

int64_t RunProgress::newest_step() const {
  for (const auto& [step, folder] : checkpoints_of(run_)) {
    const auto found = damaged_.find(manifest_of(folder));
    if (found == damaged_.end() || found->second != written_at(found->first)) return step;
  }
  return -1;
}

void RunProgress::verify() {
  for (const auto& [step, folder] : checkpoints_of(run_)) {
    try {
      checkpoint::CheckpointStore::verify(folder);
      break;
    } catch (const std::exception&) {  // the job says what is wrong with it
      damaged_[manifest_of(folder)] = written_at(manifest_of(folder));
    }
  }
  look();
}

void RunProgress::look() {
  if (run_.empty()) return;
  saved_ = newest_step();
  StepAt& kept = kept_[saved_];
  const Records records = read_records(run_ / kRecords);
  if (!records.is_known) return;
  // A job that goes on from a checkpoint cuts the file, so that its records may be where earlier
  // ones were.
  earlier_.bytes = std::min(earlier_.bytes, records.bytes);
  for (const Record& record : records.steps) {
    if (record.offset < earlier_.bytes && record.time <= earlier_.time) continue;
    if (first_.step < 0) first_ = record;
    if (record.step > last_.step) last_ = record;
    if (record.step <= saved_ && record.step > kept.step) kept = record;
  }
}

int64_t RunProgress::trained() const { return last_.step; }

int64_t RunProgress::unsaved_steps() const {
  return last_.step < 0 ? 0
                        : std::max<int64_t>(last_.step - std::max<int64_t>({saved_, from_, 0}), 0);
}

double RunProgress::useful_seconds(Kept kept) const {
  const auto found = kept_.find(saved_);
  const StepAt of_checkpoint = found == kept_.end() ? StepAt{} : found->second;
  const StepAt& end = kept == Kept::kAll ? last_ : of_checkpoint;
  return end.step < 0 ? 0 : std::max(end.time - first_.time, 0.0);
}

}  // namespace dtrain::supervisor
