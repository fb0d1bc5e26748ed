// Reads what `dtrain bench step --json` wrote, perhaps on another machine. Part of measured_run.h.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "plan/measured_run.h"
#include "report/bounded_file.h"
#include "text/printable.h"
#include "text/strings.h"

namespace dtrain::plan {
namespace {

using Json = nlohmann::json;

constexpr int64_t kLargestFile = 16 << 20;

// A place in the file, for its messages.
class Reader {
 public:
  Reader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  const Json& at(const char* key) const {
    const auto found = json_.is_object() ? json_.find(key) : json_.end();
    if (found == json_.end()) fail(str("has no '", key, "'"));
    return *found;
  }
  Reader inside(const char* key) const { return {at(key), str(where_, ".", key)}; }

  double seconds(const char* key) const { return number(key, 0, 1e9); }
  int64_t count(const char* key, int64_t least) const {
    const double value = number(key, static_cast<double>(least), 9e15);
    if (value != std::floor(value)) fail(str("'", key, "' is ", value, ", not a whole number"));
    return static_cast<int64_t>(value);
  }
  std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) fail(str("'", key, "' is no text"));
    return value.get<std::string>();
  }
  std::vector<Reader> list(const char* key) const {
    const Json& value = at(key);
    if (!value.is_array()) fail(str("'", key, "' is no list"));
    std::vector<Reader> all;
    for (size_t i = 0; i < value.size(); ++i)
      all.push_back({value[i], str(where_, ".", key, "[", i, "]")});
    return all;
  }
  double own_number(double least, double most) const { return checked(json_, "it", least, most); }
  double number(const char* key, double least, double most) const {
    return checked(at(key), key, least, most);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(
        str(where_, " ", what,
            ": --measured takes what `dtrain bench step --json FILE` of this version wrote"));
  }

 private:
  double checked(const Json& value, const char* name, double least, double most) const {
    const double number = value.is_number() ? value.get<double>() : std::nan("");
    if (!(number >= least && number <= most))
      fail(str("'", name, "' is no number from ", least, " to ", most));
    return number;
  }

  const Json& json_;
  std::string where_;
};

Json parsed(const std::filesystem::path& path) {
  const report::FileText file = report::read_small(path, kLargestFile);
  if (!file.problem.empty())
    throw DataError(str("--measured: ", printable(path.string()), " ", file.problem));
  Json json = Json::parse(file.text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    throw DataError(str("--measured: ", printable(path.string()), " is not JSON"));
  return json;
}

MeasuredBatch batch_of(const Reader& row, int64_t micro_steps) {
  const auto each = static_cast<double>(micro_steps);
  const Reader phases = row.inside("phase_seconds"), memory = row.inside("memory_bytes");
  train::StepMemory bytes_of_kinds;
  for (const auto& [name, bytes] : train::kMemoryKinds)
    bytes_of_kinds.*bytes = memory.count(name, 0);
  return {.samples = row.count("batch_size", 1),
          .data = phases.seconds("data_wait") / each,
          .h2d = phases.seconds("h2d") / each,
          .forward = phases.seconds("forward") / each,
          .backward = phases.seconds("backward") / each,
          .load = row.seconds("load_seconds") / each,
          .deviation = row.seconds("deviation_seconds") / std::sqrt(each),
          .optimizer = phases.seconds("optimizer"),
          .other = row.number("other_seconds", -1e9, 1e9),
          .step = row.seconds("step_seconds"),
          .memory = bytes_of_kinds};
}

}  // namespace

MeasuredRun read_measured_run(const std::filesystem::path& path) {
  const Json json = parsed(path);
  const Reader file(json, printable(path.string()));
  MeasuredRun run{.source = path.string(),
                  .network = file.text("network"),
                  .precision = file.text("precision"),
                  .device = file.text("device"),
                  .data = file.text("data"),
                  .ranks = file.count("ranks", 1),
                  .samples = file.count("samples", 1),
                  .prefetch = file.count("prefetch", 0),
                  .micro_steps = file.count("accumulate", 1)};
  constexpr int64_t kMostAhead = 1024;  // same limit as for data.prefetch
  if (run.prefetch > kMostAhead)
    file.fail(str("'prefetch' is ", run.prefetch, ", more than ", kMostAhead));
  for (const Reader& row : file.list("rows")) {
    if (const std::string missing = row.text("out_of_memory"); !missing.empty()) {
      run.too_large.emplace_back(row.count("batch_size", 1), missing);
      continue;
    }
    run.batches.push_back(batch_of(row, run.micro_steps));
  }
  if (run.batches.empty()) file.fail("has no row that was measured");
  std::ranges::sort(run.batches, {}, &MeasuredBatch::samples);
  if (std::ranges::adjacent_find(run.batches, {}, &MeasuredBatch::samples) != run.batches.end()) {
    file.fail("has a batch size twice");
  }
  for (const Reader& bucket : file.list("gradient_buckets")) {
    run.buckets.push_back({bucket.number("bytes", 0, 1e15), bucket.number("ready", 0, 1)});
  }
  if (run.buckets.empty()) file.fail("has no gradient buckets");
  for (const Reader& sum : file.list("statistics_bytes"))
    run.statistics.push_back(sum.own_number(0, 1e12));
  return run;
}

}  // namespace dtrain::plan
