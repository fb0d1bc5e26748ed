#include "monitoring/jsonl_sink.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "core/clock.h"
#include "core/log.h"
#include "core/table.h"
#include "monitoring/append_file.h"
#include "os/file_descriptor.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::monitoring {
namespace {

using Json = nlohmann::ordered_json;
using measure::Quantity;

void put(Json& object, const std::string& name, double value) {
  if (std::isfinite(value)) {
    object[name] = value;
    return;
  }
  object[name] = nullptr;
  if (std::isinf(value)) object[name + "_text"] = value > 0 ? "inf" : "-inf";
}

// Whether a line is a record of `step` or of a step before it.
bool is_until(std::string_view line, int64_t step) {
  const Json record = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  return record.is_object() && record.contains("step") && record["step"].is_number_integer() &&
         record["step"].get<int64_t>() <= step;
}

// Where the last record until `step` ends; 0 if there is none. The steps of the records ascend, and
// a long run has gigabytes of them: the file is read from its end, in blocks.
int64_t end_of_records_until(const FileDescriptor& file, const std::filesystem::path& path,
                             int64_t size, int64_t step) {
  constexpr int64_t kBlock = 1 << 20;
  std::string text, block;  // text: the file from `begin` to the end of the last line that may stay
  for (int64_t begin = size; begin > 0;) {
    // More than a block for a line that is longer.
    const int64_t bytes = std::min(begin, std::max(kBlock, static_cast<int64_t>(text.size())));
    begin -= bytes;
    block.resize(static_cast<size_t>(bytes));
    if (const int code = file.read_all_at(std::as_writable_bytes(std::span(block)), begin)) {
      fail_to_write("read", path, code);
    }
    text.insert(0, block);
    text.resize(text.rfind('\n') + 1);  // without a last line that was cut short
    while (!text.empty()) {
      const std::string_view lines = std::string_view(text).substr(0, text.size() - 1);
      const size_t newline = lines.rfind('\n');
      if (newline == std::string_view::npos && begin > 0)
        break;  // the line begins in the block before
      if (is_until(lines.substr(newline + 1), step))
        return begin + static_cast<int64_t>(text.size());
      text.resize(newline + 1);
    }
  }
  return 0;
}

// Removes the records after `step`, and a last line that a crash cut short.
void cut_after(const std::filesystem::path& path, int64_t step) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) return;
  FileDescriptor file;
  if (const int error = file.open(path, O_RDWR)) fail_to_write("open", path, error);
  const int64_t size = ::lseek(file.get(), 0, SEEK_END);
  const int64_t end = end_of_records_until(file, path, size, step);
  if (end < size && ::ftruncate(file.get(), end) != 0) fail_to_write("truncate", path, errno);
}

Json phases_json(const measure::PhaseSeconds& seconds) {
  Json phases = Json::object();
  for (size_t i = 0; i < measure::kPhases; ++i) put(phases, measure::kPhaseNames[i], seconds[i]);
  return phases;
}

void put_if_known(Json& object, const std::string& name, double value) {
  if (!std::isnan(value)) put(object, name, value);
}

Json rank_json(const measure::RankMeans& r) {
  Json j{{"rank", r.rank}};
  put(j, "step_seconds", r.times.wall);
  j["phase_seconds"] = phases_json(r.times.phases);
  put(j, "other_seconds", r.times.other());
  if (r.times.buckets[2] > 0) j["bucket_seconds"] = r.times.buckets;
  if (r.times.launch > 0) put(j, "launch_seconds", r.times.launch);
  for (const Quantity quantity : measure::all_quantities()) {
    const measure::QuantityRow& row = measure::row_of(quantity);
    const double value = r.values[quantity];
    if (row.key.empty() || std::isnan(value)) continue;
    Json& object = row.group.empty() ? j : j[std::string(row.group)];
    if (row.whole) {
      object[std::string(row.key)] = static_cast<int64_t>(value);
    } else {
      put(object, std::string(row.key), value);
    }
  }
  return j;
}

Json slowest_json(const measure::SlowStep& s) {
  Json j{{"step", s.step}, {"rank", s.rank}};
  put(j, "step_seconds", s.times.wall);
  j["phase_seconds"] = phases_json(s.times.phases);
  put(j, "other_seconds", s.times.other());
  return j;
}

class JsonLines : public Sink {
 public:
  JsonLines(const std::filesystem::path& file, int64_t resumed_step)
      : file_(prepared(file, resumed_step)), step_(resumed_step) {}

  void record(const StepStats& s) override {
    step_ = s.step;
    if (!s.logging) return;
    Json j = begin("step");
    j["epoch"] = s.epoch;
    put(j, "loss", s.loss);
    put(j, "learning_rate", s.learning_rate);
    put(j, "grad_norm", s.grad_norm);
    put(j, "loss_scale", s.values[Quantity::kLossScale]);
    j["skipped_total"] = static_cast<int64_t>(s.values.or_zero(Quantity::kSkippedSteps));
    j["samples"] = s.samples;
    j["micro_steps"] = s.micro_steps;
    put(j, "samples_per_second", s.samples_per_second);
    put(j, "step_seconds", s.step_seconds);
    j["phase_seconds"] = phases_json(s.phase_seconds);
    put(j, "other_seconds", s.other_seconds);
    if (!s.ranks.empty()) j["ranks"] = Json::array();
    for (const measure::RankMeans& rank : s.ranks) j["ranks"].push_back(rank_json(rank));
    if (s.slowest) j["slowest"] = slowest_json(*s.slowest);
    put(j, "eta_seconds", s.eta_seconds);
    j["bytes_reduced"] = s.bytes_reduced;
    j["loader_bytes"] = s.loader_bytes;
    j["loader_queue"] = s.loader_queue;
    put(j, "memory_used_bytes", s.values[Quantity::kMemory]);
    put(j, "memory_total_bytes", s.values[Quantity::kDeviceMemory]);
    if (!std::isnan(s.padding_waste)) put(j, "padding_waste", s.padding_waste);
    if (s.bad_samples > 0) j["bad_samples"] = s.bad_samples;
    j["ledger"] = hex(s.ledger);  // text, because many readers round a JSON number of 64 bits
    write(j);
  }

  void record(const EvalStats& e) override {
    Json j = begin("eval");
    j["step"] = e.step;
    j["epoch"] = e.epoch;
    j["split"] = e.split;
    Json metrics = Json::object();
    for (const auto& [name, value] : e.metrics) put(metrics, name, value);
    j["metrics"] = metrics;
    if (!e.tables.empty()) j["tables"] = Json::array();
    for (const Table& table : e.tables) j["tables"].push_back(table_json<Json>(table));
    j["samples"] = e.samples;
    put(j, "seconds", e.seconds);
    write(j);
  }

  void checkpoint_saved(int64_t step, double seconds) override {
    Json j = begin("checkpoint");
    j["step"] = step;
    put(j, "seconds", seconds);
    write(j);
  }

  void verdict(const VerdictRecord& v) override {
    Json j = begin("verdict");
    j["text"] = v.text;
    if (!v.also.empty()) j["also"] = v.also;
    j["causes"] = Json::array();
    for (const VerdictRecord::Cause& cause : v.causes) {
      Json c{{"cause", cause.name}, {"rank", cause.rank}};
      put(c, "gain", cause.gain);
      put(c, "error", cause.error);
      c["setting"] = cause.setting;
      c["evidence"] = cause.evidence;
      c["otherwise"] = cause.otherwise;
      j["causes"].push_back(std::move(c));
    }
    j["not_measured"] = v.not_measured;
    Json communication = Json::object();
    for (const CommunicationPart& part : kCommunicationParts)
      put_if_known(communication, str(part.name, "_seconds"), v.communication.*part.seconds);
    if (!communication.empty()) j["communication"] = communication;
    Json headroom = Json::object(), all_reduce = Json::object();
    put_if_known(headroom, "step_seconds", v.probes.cached_step);
    put_if_known(all_reduce, "latency_seconds", v.probes.latency);
    put_if_known(all_reduce, "seconds_per_byte", v.probes.seconds_per_byte);
    if (!headroom.empty()) j["headroom"] = headroom;
    if (!all_reduce.empty()) j["all_reduce"] = all_reduce;
    write(j);
  }

  void state(LiveState state) override {
    Json j = begin("state");
    j["state"] = name_of(state);
    write(j);
  }

  void end(const RunEnd& end) override {
    Json j = begin("state");
    j["state"] = name_of(end.state);
    j["exit_code"] = end.exit_code;
    j["reason"] = end.reason;
    if (!end.failure.empty()) j["failure"] = Json::parse(end.failure);
    write(j);
  }

 private:
  static const std::filesystem::path& prepared(const std::filesystem::path& file,
                                               int64_t resumed_step) {
    try {
      cut_after(file, resumed_step);
    } catch (const std::exception& e) {
      log::warning(str("cannot remove the records after step ", resumed_step, " from ",
                       file.string(), ": ", e.what()));
    }
    return file;
  }
  Json begin(const char* kind) const {
    return {{"kind", kind}, {"time", unix_seconds()}, {"step", step_}};
  }
  void write(const Json& record) {
    // A name that is not UTF-8 must not end training: its invalid bytes are replaced.
    file_.append(record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }

  AppendFile file_;
  int64_t step_;
};

}  // namespace

std::unique_ptr<Sink> make_jsonl_sink(const std::filesystem::path& file, int64_t resumed_step) {
  return std::make_unique<JsonLines>(file, resumed_step);
}

}  // namespace dtrain::monitoring
