#include "job/trace_run.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "core/log.h"
#include "device/device.h"
#include "device/kernel_trace.h"
#include "device/operator_observer.h"
#include "device/tensor_memory.h"
#include "dist/agree.h"
#include "dist/clock_offsets.h"
#include "dist/object_collectives.h"
#include "job/step_trial.h"
#include "job/version.h"
#include "monitoring/step_stats.h"
#include "text/printable.h"
#include "text/strings.h"
#include "trace/chrome_trace.h"
#include "trace/memory_peak.h"
#include "train/device_failure.h"

namespace dtrain::job {

// What travels between ranks beside StepMemory.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HeldMemory, name, module, backward, bytes, tensors);
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PassPeak, pass, bytes, held, others);
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankSummary, events, left_out, clock_error, peaks);

namespace {

using device::OperatorObserver;
using Json = nlohmann::json;

// Readers and the device do not do the same in each step.
constexpr double kRoom = 2;
constexpr size_t kSpareRoom = 4096;  // events of a track

// The operations of a communicator as a track, while this lives.
class Recorded {
 public:
  Recorded(trace::Recorder& recorder, dist::MeteredCommunicator& communicator,
           const std::string& what, int place)
      : communicator_(communicator), name_(str(what, " (", communicator.name(), ")")) {
    communicator_.record(recorder.track(name_, place));
  }
  ~Recorded() { communicator_.record(nullptr); }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
  const std::string& name() const { return name_; }

 private:
  dist::MeteredCommunicator& communicator_;
  const std::string name_;
};

// Every allocation while this lives, with the operator that made it.
class AllocationLog {
 public:
  AllocationLog(trace::Recorder& recorder, const OperatorObserver& operators)
      : operators_(operators),
        counter_(recorder.track(trace::kCounters, 0)),
        memory_([this](const void* address, int64_t bytes, int64_t held) {
          note(address, bytes, held);
        }) {}

  const std::vector<trace::MemoryChange>& changes() const { return changes_; }

 private:
  void note(const void* address, int64_t bytes, int64_t held) {
    const trace::Time now = trace::now();
    changes_.push_back(
        {now, reinterpret_cast<uint64_t>(address), bytes, bytes > 0 ? operators_.current() : -1});
    counter_->add({.name = "tensor memory",
                   .begin = now,
                   .end = now,
                   .kind = trace::Kind::kCounter,
                   .a = held});
  }

  const OperatorObserver& operators_;
  trace::Track* counter_;
  std::vector<trace::MemoryChange> changes_;
  const device::TensorMemory memory_;  // last, because it calls note()
};

std::vector<trace::TimeRange> times_of(const std::vector<trace::TrackEvents>& tracks,
                                       const char* phase) {
  std::vector<trace::TimeRange> times;
  for (const trace::TrackEvents& track : tracks) {
    if (track.name != trace::kTrainingThread) continue;
    for (const trace::Event& event : track.events) {
      if (event.kind == trace::Kind::kPhase && std::string_view(event.name) == phase) {
        times.push_back({event.begin, event.end});
      }
    }
  }
  return times;
}

PassPeak peak_of(const AllocationLog& log, const OperatorObserver& operators,
                 const std::vector<trace::TrackEvents>& tracks, measure::Phase phase) {
  const char* name = measure::kPhaseNames[static_cast<size_t>(phase)];
  const trace::MemoryPeak peak = trace::peak_within(log.changes(), times_of(tracks, name));
  const std::vector<OperatorObserver::Owner> owners = operators.owners();
  PassPeak pass{.pass = name, .bytes = peak.bytes};
  for (const trace::HeldBy& held : peak.held) {
    if (pass.held.size() == kMostHolders) {
      pass.others += held.bytes;
      continue;
    }
    HeldMemory& one =
        pass.held.emplace_back(HeldMemory{.bytes = held.bytes, .tensors = held.tensors});
    if (held.owner < 0) continue;
    const OperatorObserver::Owner& owner = owners[static_cast<size_t>(held.owner)];
    one.name = owner.name;
    one.module = owner.module;
    one.backward = owner.backward;
  }
  return pass;
}

double seconds_now() { return 1e-9 * static_cast<double>(trace::now()); }

// The offset of this rank's clock from rank 0's. Ranks of one host have one clock: theirs is that
// of the host's first rank, unless the measurement says that it is not.
dist::ClockOffset own_offset(const ProcessContext& process) {
  const std::vector<dist::ClockOffset> all = dist::clock_offsets(process.host, seconds_now);
  const dist::ClockOffset own = all[static_cast<size_t>(process.world.rank)];
  const dist::ClockOffset of_host = all[static_cast<size_t>(process.world.host)];
  return std::abs(own.seconds - of_host.seconds) <= own.error + of_host.error ? of_host : own;
}

std::string process_name(const ProcessContext& process) {
  const std::string name = device::properties(process.device).name;
  return printable(str("rank ", process.world.rank, ": ", process.world.node, ", ",
                       process.device.is_cpu() ? name : process.device.str() + " " + name));
}

// `events`: of one step of the rank that has most of them.
void check_size(const TraceOptions& options, double events, int ranks) {
  const double step = events * ranks * trace::kBytesPerEvent,
               size = step * static_cast<double>(options.steps);
  if (size <= options.most_bytes) return;
  const auto fitting = static_cast<int64_t>(options.most_bytes / step);
  std::string ways = fitting >= 1 ? str("use --steps ", fitting, ", ") : "";
  if (options.operators) ways += "leave out --operators, ";
  throw UsageError(str("a trace of ", options.steps, options.steps == 1 ? " step" : " steps",
                       " would have about ", human_bytes(size), " (a step of a rank has ",
                       human_count(static_cast<int64_t>(events)), " events), and the limit is ",
                       human_bytes(options.most_bytes), ": ", ways, ways.empty() ? "" : "or ",
                       "raise --max-mib"));
}

bool traces_kernels(const ProcessContext& process, const TraceOptions& options) {
  return options.operators && !options.memory && device::can_trace_kernels(process.device);
}

// `kernels`: some were seen.
std::vector<std::string> not_measured(const ProcessContext& process, const TraceOptions& options,
                                      bool kernels) {
  std::vector<std::string> parts;
  if (process.device.is_cpu()) {
    parts.emplace_back("GPU: there is none");
  } else if (!traces_kernels(process, options)) {
    parts.emplace_back("GPU kernels: use --operators, without --memory");
  } else if (!kernels) {
    parts.emplace_back("GPU kernels: CUPTI reports none; `nsys profile` may say why");
  }
  if (process.world.size == 1) parts.emplace_back("communication: 1 rank sends nothing");
  if (!options.operators) parts.emplace_back("operators: add --operators");
  if (!options.memory) parts.emplace_back("memory by operator: add --memory");
  return parts;
}

trace::Facts facts_of(const PreparedRun& run, const TraceOptions& options,
                      const std::vector<std::string>& missing) {
  const config::Config& config = run.config;
  return {{"program", version_text()},
          {"network", printable(str(config.model.name))},
          {"precision", train::to_string(run.precision)},
          {"batch", train::describe(run.batches)},
          {"ranks", str(run.process.world.size)},
          {"steps", str(options.steps)},
          {"not measured", join(missing, "; ")}};
}

// Everything that is measured on this rank.
class TraceRun {
 public:
  TraceRun(const ConnectedRun& run, const TraceOptions& options)
      : run_(run),
        options_(options),
        trial_(run, {.batch_size = run.batches.batch_size,
                     .accumulate = run.batches.accumulate,
                     .recorder = &recorder_}) {}

  void measure() try {
    const ProcessContext& process = run_.process;
    train::StepRunner& runner = trial_.runner();
    // A rank whose memory is full fails before others wait for it.
    summary_.memory = runner.measure_memory();
    // The first step lays buckets out again.
    runner.measure(std::max<int64_t>(1, options_.warm_steps - 2));
    observe();
    // Makes the tracks of autograd's threads, so that the next step counts them.
    runner.measure(1);
    recorder_.start(0, 0);
    runner.measure(1);
    const double events =
        dist::largest_of_ranks(process.host, static_cast<double>(recorder_.counted()));
    dist::agree(process.host, [&] { check_size(options_, events, process.world.size); });

    trace_.clock.before = trace::now();
    const dist::ClockOffset before = own_offset(process);
    std::optional<device::KernelTrace> kernels;
    if (traces_kernels(process, options_)) kernels.emplace(process.device);
    recorder_.start(kRoom * static_cast<double>(options_.steps), kSpareRoom);
    measured_ = runner.measure(options_.steps);
    finish_communication();
    recorder_.stop();
    if (kernels) kernels_ = kernels->finish(recorder_);
    trace_.clock.after = trace::now();
    const dist::ClockOffset after = own_offset(process);
    trace_.clock.offset_before = before.seconds;
    trace_.clock.offset_after = after.seconds;
    summary_.clock_error = std::max(before.error, after.error);
    collect();
  } catch (const c10::Error& error) {
    train::throw_device_failure(error, trial_.context(), "in a measured step");
    throw;
  }

  TraceSummary share() const {
    dist::Communicator& host = run_.process.host;
    TraceSummary all{.measured = dist::all_gather_object(host, measured_),
                     .ranks = {},
                     .not_measured = not_measured(run_.process, options_, !kernels_.empty())};
    const std::string mine =
        Json(summary_).dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
    for (const std::string& theirs : dist::all_gather_object(host, mine))
      all.ranks.push_back(Json::parse(theirs).get<RankSummary>());
    const std::vector<train::StepMemory> memory = dist::all_gather_object(host, summary_.memory);
    for (size_t rank = 0; rank < memory.size(); ++rank) all.ranks[rank].memory = memory[rank];
    return all;
  }

  void write(const std::vector<std::string>& missing,
             const std::function<void(std::string_view)>& write) const {
    dist::Communicator& host = run_.process.host;
    const std::vector<trace::Time> began =
        dist::all_gather_object(host, trace_.clock.common(trace_.began));
    const trace::Time origin = *std::min_element(began.begin(), began.end());
    if (host.rank() == 0) write(trace::trace_header(facts_of(run_, options_, missing)));
    for (int rank = 0; rank < host.size(); ++rank) {
      dist::stream_to_rank0(
          host, rank,
          [&](const dist::TakePiece& send) {
            trace::write_rank(trace_, origin, /*first=*/rank == 0, send);
          },
          write);
    }
    if (host.rank() == 0) write(trace::trace_footer());
  }

 private:
  // From here on operators, allocations and communicators are seen; nothing is recorded yet.
  void observe() {
    if (options_.operators || options_.memory) {
      operators_.emplace(
          recorder_, run_.task->model(),
          OperatorObserver::Options{.events = options_.operators, .owners = options_.memory});
    }
    if (options_.memory) allocations_ = std::make_unique<AllocationLog>(recorder_, *operators_);
    int place = trace::kCommPlace;
    const auto record = [&](dist::MeteredCommunicator& communicator, const char* what) {
      communicators_.push_back(std::make_unique<Recorded>(recorder_, communicator, what, place++));
    };
    Connections& connections = *run_.connections;
    record(connections.gradients(), "gradients");
    trace_.bucket_track = communicators_.back()->name();
    if (connections.statistics() != nullptr) record(*connections.statistics(), "batch norm sums");
    record(run_.process.host, "agreement");
  }

  // On a GPU the times of operations and phases are known once the device has passed them.
  void finish_communication() {
    run_.connections->gradients().traffic();
    if (run_.connections->statistics() != nullptr) run_.connections->statistics()->traffic();
  }

  void collect() {
    trace_.rank = run_.process.world.rank;
    trace_.name = process_name(run_.process);
    trace_.began = recorder_.began();
    trace_.ended = recorder_.ended();
    trace_.tracks = recorder_.events();
    trace_.tracks.insert(trace_.tracks.end(), kernels_.begin(), kernels_.end());
    for (const trace::TrackEvents& track : trace_.tracks) {
      summary_.events += static_cast<int64_t>(track.events.size());
      summary_.left_out += static_cast<int64_t>(track.left_out);
    }
    if (!allocations_) return;
    for (const measure::Phase phase : {measure::Phase::kForward, measure::Phase::kBackward}) {
      summary_.peaks.push_back(peak_of(*allocations_, *operators_, trace_.tracks, phase));
    }
  }

  const ConnectedRun& run_;
  const TraceOptions& options_;
  trace::Recorder recorder_;  // first: what follows records with it
  StepTrial trial_;
  std::optional<OperatorObserver> operators_;
  std::unique_ptr<AllocationLog> allocations_;
  std::vector<std::unique_ptr<Recorded>> communicators_;
  std::vector<trace::TrackEvents> kernels_;
  train::MeasuredSteps measured_;
  trace::RankTrace trace_;
  RankSummary summary_;
};

}  // namespace

TraceSummary trace_steps(const ConnectedRun& run, const TraceOptions& options,
                         const std::function<void(std::string_view)>& write) {
  const log::Quiet quiet;
  TraceRun trace(run, options);
  trace.measure();
  TraceSummary summary = trace.share();
  run.end_watch();  // who writes, or waits for it, makes no progress
  trace.write(summary.not_measured, write);
  return summary;
}

}  // namespace dtrain::job
