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
#include "core/file_system.h"
#include "core/number_text.h"
#include "core/strings.h"
#include "report/bounded_file.h"

namespace dtrain::supervisor {
namespace {

constexpr int64_t kTail = 256 << 10;  // bytes: hundreds of records

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

// Step and folder, newest first. A folder that cannot be read has none: the job says so.
std::vector<std::pair<int64_t, std::filesystem::path>> checkpoints_of(const std::filesystem::path& run) {
  try {
    return checkpoint::Store(run / "checkpoints", real_file_system(), 1).list();
  } catch (const std::exception&) {
    return {};
  }
}

std::filesystem::path manifest_of(const std::filesystem::path& folder) { return folder / checkpoint::kManifestName; }

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

void RunProgress::begin_job(double now) {
  began_ = now;
  first_ = last_ = kept_ = {};
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
      checkpoint::Store::verify(folder);
      break;
    } catch (const std::exception&) {  // the job says what is wrong with it
      damaged_[manifest_of(folder)] = written_at(manifest_of(folder));
    }
  }
  kept_ = {};
  look();
}

void RunProgress::look() {
  saved_ = newest_step();
  for (const std::string& line : split(report::read_tail(run_ / "metrics.jsonl", kTail).text, '\n')) {
    const std::optional<StepAt> record = step_in(line);
    if (!record || record->time < began_) continue;
    if (first_.step < 0) first_ = *record;
    if (record->step > last_.step) last_ = *record;
    if (record->step <= saved_ && record->step > kept_.step) kept_ = *record;
  }
}

int64_t RunProgress::trained() const { return last_.step; }

int64_t RunProgress::unsaved_steps() const {
  return last_.step < 0 ? 0 : std::max<int64_t>(last_.step - std::max<int64_t>({saved_, from_, 0}), 0);
}

double RunProgress::useful_seconds(Kept kept) const {
  const StepAt& end = kept == Kept::kAll ? last_ : kept_;
  return end.step < 0 ? 0 : std::max(end.time - first_.time, 0.0);
}

}  // namespace dtrain::supervisor
