// `dtrain trace`: optimizer steps of all ranks on one clock, as a file for a trace viewer; with
// --memory, which operators hold the memory.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/row_output.h"
#include "cli/step_table.h"
#include "cli/table_output.h"
#include "core/error.h"
#include "dist/agree.h"
#include "job/trace_run.h"
#include "os/file_system.h"
#include "text/printable.h"
#include "text/strings.h"
#include "text/text_table.h"
#include "trace/gzip.h"

namespace dtrain::cli {
namespace {

using job::HeldMemory;
using job::PassPeak;
using job::RankSummary;
using job::TraceSummary;
using Json = nlohmann::ordered_json;

constexpr size_t kMostRows = 12;  // operators of a pass in the table; JSON has more

struct Options {
  std::string out = "trace.json.gz";
  double most_mib = 512;
  job::TraceOptions how;
  TableOutput output;
};

// The trace as a file, compressed if its name says so. It is complete or not there.
class TraceFile {
 public:
  TraceFile(const std::filesystem::path& path, bool replace) : file_(path, replace) {
    if (path.extension() == ".gz") gzip_.emplace([this](std::string_view bytes) { store(bytes); });
  }
  void write(std::string_view text) {
    if (gzip_) {
      gzip_->add(text);
    } else {
      store(text);
    }
  }
  void close() {
    if (gzip_) gzip_->finish();
    file_.close();
  }
  int64_t bytes() const { return bytes_; }

 private:
  void store(std::string_view bytes) {
    bytes_ += static_cast<int64_t>(bytes.size());
    file_.write(bytes);
  }

  RowOutput file_;
  std::optional<trace::Gzip> gzip_;
  int64_t bytes_ = 0;
};

struct Results {
  TraceSummary summary;
  std::string out, network, precision, data, device;
  int64_t bytes = 0;  // size of the trace file
  int64_t steps = 0;

  int64_t events() const {
    int64_t sum = 0;
    for (const RankSummary& rank : summary.ranks) sum += rank.events;
    return sum;
  }
  // That holds the most in forward or backward; nullptr without --memory.
  const RankSummary* fullest() const {
    const auto most = [](const RankSummary& rank) {
      int64_t bytes = 0;
      for (const PassPeak& pass : rank.peaks) bytes = std::max(bytes, pass.bytes);
      return bytes;
    };
    const RankSummary* found = nullptr;
    for (const RankSummary& rank : summary.ranks) {
      if (!rank.peaks.empty() && (found == nullptr || most(rank) > most(*found))) found = &rank;
    }
    return found;
  }
};

std::string step_table(const Results& results) {
  TextRow header = {"rank"};
  add_headings(header);
  header.insert(header.end(), {"events", "left out", "clock error us"});
  std::vector<TextRow> rows;
  std::vector<MeanStep> steps;
  for (const train::MeasuredSteps& measured : results.summary.measured)
    steps.push_back(mean_of({measured}));
  for (const size_t rank : ranks_to_show(steps)) {
    const RankSummary& one = results.summary.ranks[rank];
    TextRow row = {str(rank)};
    add_times(row, steps[rank]);
    row.insert(row.end(), {str(one.events), str(one.left_out), fixed(one.clock_error * 1e6, 1)});
    rows.push_back(std::move(row));
  }
  return text_table(header, rows);
}

std::string peak_table(const PassPeak& pass) {
  std::vector<TextRow> rows;
  int64_t others = pass.others;
  for (size_t i = 0; i < pass.held.size(); ++i) {
    const HeldMemory& held = pass.held[i];
    if (i >= kMostRows) {
      others += held.bytes;
      continue;
    }
    rows.push_back({held.name.empty() ? "(no operator)" : held.name, held.module,
                    held.backward ? "backward" : "forward", str(held.tensors),
                    human_bytes(static_cast<double>(held.bytes)),
                    fixed(100 * static_cast<double>(held.bytes) /
                              static_cast<double>(std::max<int64_t>(1, pass.bytes)),
                          1)});
  }
  if (others > 0) {
    rows.push_back({"(others)", "", "", "", human_bytes(static_cast<double>(others)),
                    fixed(100 * static_cast<double>(others) /
                              static_cast<double>(std::max<int64_t>(1, pass.bytes)),
                          1)});
  }
  return str("\nHeld at the peak of ", pass.pass, ": ",
             human_bytes(static_cast<double>(pass.bytes)), "\n",
             text_table({"operator", "module", "made in", "tensors", "size", "%"}, rows,
                        {Align::kLeft, Align::kLeft, Align::kLeft}));
}

std::string memory_text(const Results& results) {
  const RankSummary* fullest = results.fullest();
  if (fullest == nullptr) return "";
  const train::StepMemory& m = fullest->memory;
  const auto bytes = [](int64_t count) { return human_bytes(static_cast<double>(count)); };
  std::string text =
      str("\nMemory of rank ", fullest - results.summary.ranks.data(), ": weights ",
          bytes(m.weights), ", gradients ", bytes(m.gradients), ", moments ", bytes(m.moments),
          ", average ", bytes(m.average), ", batch ", bytes(m.batch),
          "; what steps add to that is below, by the operators that allocated it\n");
  for (const PassPeak& pass : fullest->peaks) text += peak_table(pass);
  return text;
}

std::string text_of(const Results& results) {
  const auto ranks = results.summary.ranks.size();
  std::string text = str(results.network, ", ", results.precision, ", ", printable(results.data),
                         "; ", ranks, ranks == 1 ? " rank" : " ranks", " on ", results.device,
                         "; means of ", results.steps, results.steps == 1 ? " step" : " steps",
                         " in ms\n", step_table(results), memory_text(results));
  if (!results.summary.not_measured.empty())
    text += str("not measured: ", join(results.summary.not_measured, "; "), "\n");
  return text + str("trace: ", printable(results.out), " (",
                    human_bytes(static_cast<double>(results.bytes)), ", ",
                    human_count(results.events()),
                    " events); open it in https://ui.perfetto.dev or chrome://tracing\n");
}

Json json_of(const PassPeak& pass) {
  Json held = Json::array();
  for (const HeldMemory& one : pass.held) {
    held.push_back({{"operator", one.name},
                    {"module", one.module},
                    {"made_in", one.backward ? "backward" : "forward"},
                    {"tensors", one.tensors},
                    {"bytes", one.bytes}});
  }
  return {{"pass", pass.pass},
          {"bytes", pass.bytes},
          {"held", std::move(held)},
          {"others_bytes", pass.others}};
}

std::string json_of(const Results& results) {
  Json ranks = Json::array();
  for (size_t rank = 0; rank < results.summary.ranks.size(); ++rank) {
    const RankSummary& one = results.summary.ranks[rank];
    Json json = {{"rank", rank},
                 {"events", one.events},
                 {"left_out", one.left_out},
                 {"clock_error_seconds", one.clock_error}};
    json.update(Json::parse(to_json(mean_of({results.summary.measured[rank]}))));
    json["memory_bytes"] = Json::parse(to_json(one.memory));
    if (!one.peaks.empty()) {
      json["peaks"] = Json::array();
      for (const PassPeak& pass : one.peaks) json["peaks"].push_back(json_of(pass));
    }
    ranks.push_back(std::move(json));
  }
  return Json{{"trace", results.out},
              {"bytes", results.bytes},
              {"events", results.events()},
              {"steps", results.steps},
              {"network", results.network},
              {"precision", results.precision},
              {"data", results.data},
              {"device", results.device},
              {"not_measured", results.summary.not_measured},
              {"ranks", std::move(ranks)}}
             .dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) +
         "\n";
}

int record(job::ProcessContext& process, const config::Loaded& loaded, Options& options) {
  job::PreparedRun prepared =
      job::plan_training(process, loaded, /*dry_run=*/true).open_data().make_task();
  const Inputs inputs = inputs_of(loaded);
  std::optional<TraceFile> file;
  options.output.open(process.host, inputs);
  dist::agree_on_rank0(process.host, [&] {
    protect(options.out, inputs);
    check_output(options.out, options.output.force());
    file.emplace(options.out, options.output.force());
  });
  Results results{.summary = {},
                  .out = options.out,
                  .network = str(prepared.config.model.name),
                  .precision = train::to_string(prepared.precision),
                  .data = prepared.config.data.file,
                  .device = process.device.is_cpu() ? "cpu" : process.device.str(),
                  .steps = options.how.steps};
  const job::ConnectedRun run = std::move(prepared).place_on_device().connect();
  std::exception_ptr failed;  // disk error on rank 0; the other ranks still send
  results.summary = job::trace_steps(run, options.how, [&](std::string_view text) {
    if (failed) return;
    try {
      file->write(text);
    } catch (...) {
      failed = std::current_exception();
    }
  });
  dist::agree_on_rank0(process.host, [&] {
    if (failed) std::rethrow_exception(failed);
    file->close();
    results.bytes = file->bytes();
  });
  options.output.write(
      process.host, [&] { return text_of(results); }, [&] { return json_of(results); });
  return 0;
}

}  // namespace

int run_trace(const Arguments& arguments) {
  CLI::App app(
      "optimizer steps of all ranks on one clock, as a Chrome trace: phases, micro-steps, buckets "
      "of gradients, loader threads, and, on request, operators and which of them hold memory. "
      "Trains a few steps from the initial weights and keeps nothing of them; nothing is written "
      "but the trace, and quick-start data",
      "dtrain trace");
  Options options;
  constexpr int64_t kMost = int64_t{1} << 30;
  add_number(app, "--steps", options.how.steps, 1, kMost, "optimizer steps to record");
  add_number(app, "--warm-steps", options.how.warm_steps, 3, kMost,
             "steps to run before those that are recorded");
  app.add_flag("--operators", options.how.operators,
               "record every operator of LibTorch, forward and backward, and on a GPU its kernels");
  app.add_flag("--memory", options.how.memory,
               "show which operators hold the memory at the peaks of forward and backward, and "
               "record what is held");
  add_number(app, "--max-mib", options.most_mib, 1, 1e6,
             "largest size of the trace in MiB, uncompressed; a larger one is refused before it is "
             "recorded");
  app.add_option("--out", options.out, "the file to write; a name that ends in .gz is compressed")
      ->capture_default_str();
  options.output.add_to(app);
  std::optional<config::Loaded> loaded = parse_with_config(app, arguments);
  if (!loaded) return 0;
  loaded->config.train.cuda_graph = false;  // no operator runs while a graph does
  if (is_standard_output(options.out)) throw UsageError("dtrain trace: --out needs a file");
  check_distinct({{"--out", options.out}, {"--json", options.output.file()}});
  options.how.most_bytes = options.most_mib * (1 << 20);
  return job::launch(loaded->config.device, [&](job::ProcessContext& process) {
    return record(process, *loaded, options);
  });
}

}  // namespace dtrain::cli
