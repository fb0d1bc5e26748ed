// `dtrain plan`: what a run would be on other numbers of ranks, without running it there.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "catalog/gpus.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/plan_report.h"
#include "cli/table_output.h"
#include "config/config.h"
#include "config/scope.h"
#include "core/error.h"
#include "device/device.h"
#include "dist/agree.h"
#include "dist/object_collectives.h"
#include "job/batch_choice.h"
#include "job/plan_inputs.h"
#include "job/preset.h"
#include "text/number_text.h"
#include "text/printable.h"
#include "text/strings.h"

namespace dtrain::cli {
namespace {

constexpr size_t kMostSizes = 5;  // maximum number of micro-batch sizes to measure

struct Options {
  std::vector<int64_t> ranks = {1, 2, 4, 8};
  int64_t ranks_per_node = 0;  // 0: 8, or as the link is
  std::string interconnect, speed = "measured", card, scaling, measured;
  job::StepProbeOptions probe = {
      .batch_size = 0, .accumulate = 1, .warm_steps = 3, .steps = 12, .seconds = 2};
  TableOutput output;
};

double speed_of(const std::string& text) {
  if (text == "measured") return 1;
  const auto factor = parse_number<double>(text);
  if (!factor || !(*factor >= 1e-3 && *factor <= 1e6)) {
    throw UsageError(str("--device-speed ", printable(text),
                         ": 'measured', or how many times as fast as this device the planned one "
                         "computes, from 0.001 to 1000000"));
  }
  return *factor;
}

const catalog::Gpu& card_named(const std::string& name) {
  const catalog::Gpu* card = catalog::gpu_named(name);
  if (card != nullptr && !card->is_supported())
    throw UsageError("--card: " + catalog::unsupported_gpu(*card));
  if (card != nullptr) return *card;
  const std::vector<std::string> names = catalog::gpu_names();
  const std::string near = nearest(name, names);
  throw UsageError(str("--card: there is no '", printable(name), "'",
                       near.empty() ? "." : str("; did you mean '", near, "'?"), " Known are ",
                       join(names, ", ")));
}

// The fabric that the ranks would have; `measured` is the link between those that run now, if there
// are several.
plan::Fabric fabric_of(const Options& options, const plan::Interconnect& links, bool gpus,
                       config::Backend backend) {
  using plan::LinkKind;
  const plan::Library of_cpus =
      backend == config::Backend::kMpi ? plan::Library::kMpi : plan::Library::kHierarchical;
  const auto of_gpus = [](const plan::Link& link) {
    return link.kind == LinkKind::kNvlink || link.kind == LinkKind::kPcie;
  };
  plan::Fabric fabric{.inside = links.inside,
                      .between = links.between,
                      .ranks_per_node = options.ranks_per_node,
                      .library = gpus || of_gpus(links.inside) ? plan::Library::kNccl : of_cpus};
  const bool is_flat =
      links.inside.kind == LinkKind::kGiven && links.between.kind == LinkKind::kGiven;
  // A link that was measured or given is one between two ranks, wherever they are.
  if (fabric.ranks_per_node == 0) fabric.ranks_per_node = is_flat ? 1 : 8;
  return fabric;
}

// What makes the memory of a step smaller, of what this run can have and does not have yet.
std::vector<std::string> smaller_steps(const config::Config& config, const plan::MeasuredRun& run,
                                       const catalog::Gpu* card) {
  std::vector<std::string> flags;
  const bool full = run.precision == "fp32" || run.precision == "tf32";
  if (full && run.on_gpu()) flags.emplace_back("--amp auto");
  if (full && !run.on_gpu() && (card == nullptr || card->has_bf16()))
    flags.emplace_back("--amp bf16");
  if (config::kConvolutions.holds(config) && !config.model.checkpointing)
    flags.emplace_back("--model.checkpointing true");
  return flags;
}

void complete(PlanReport& report, const config::Config& config, const Options& options,
              const std::optional<plan::Link>& measured) {
  const bool gpus = report.run.on_gpu() || !options.card.empty();
  const std::string asked =
      options.interconnect.empty() && measured ? measured->name : options.interconnect;
  report.interconnect = plan::parse_interconnect(asked, measured ? &*measured : nullptr, gpus);
  plan::Assumptions& assumptions = report.request.assumptions;
  assumptions.fabric = fabric_of(options, report.interconnect, gpus, config.dist.backend);
  assumptions.speed = speed_of(options.speed);
  assumptions.contention = plan::contention_of(assumptions.fabric.library);
  report.request.ranks = options.ranks;
  const catalog::Gpu* card = options.card.empty() ? nullptr : &card_named(options.card);
  if (card != nullptr) {
    report.request.memory_bytes = card->memory_bytes();
    report.request.memory_name = options.card;
  }
  report.request.smaller = smaller_steps(config, report.run, card);
  report.rows = plan::make_plan(report.run, report.request);
}

void check_network(const plan::MeasuredRun& run, const config::Config& config) {
  const std::string network = str(config::network_of(config));
  if (run.network == network) return;
  throw ConfigError(
      str("--measured ", printable(run.source), " is of ", printable(run.network),
          ", and the configuration has ", network,
          ": give the configuration that was measured, or its --task and --model.name"));
}

PlanReport from_file(const config::Loaded& loaded, const Options& options) {
  PlanReport report{
      .run = plan::read_measured_run(options.measured), .interconnect = {}, .request = {}};
  check_network(report.run, loaded.config);
  const config::Train train =
      job::choose_batch(loaded.config.train, loaded, 1, /*resumed=*/false).train;
  report.scaling = value_named<plan::Scaling>(options.scaling).value_or(plan::scaling_of(train));
  report.request.train = plan::scaled(train, report.scaling);
  complete(report, loaded.config, options, std::nullopt);
  return report;
}

PlanReport measured_here(job::ProcessContext& process, const config::Loaded& loaded,
                         const Options& options, TableOutput& output) {
  job::PlannedRun planned = job::plan_training(process, loaded, /*dry_run=*/true);
  const config::Train train = planned.config.train;  // without the batches of these ranks
  job::PreparedRun prepared = std::move(planned).open_data().make_task();
  output.open(process.host, inputs_of(loaded));
  PlanReport report{.run = {}, .interconnect = {}, .request = {}};
  report.scaling = value_named<plan::Scaling>(options.scaling).value_or(plan::scaling_of(train));
  report.request.train = plan::scaled(train, report.scaling);
  const std::vector<int64_t> sizes = job::thinned(
      plan::sizes_needed(report.request.train, options.ranks, prepared.batches.samples),
      kMostSizes);
  const job::ConnectedRun run = std::move(prepared).place_on_device().connect();
  const std::optional<plan::Link> link = job::measure_link(run);
  report.run = job::measure_run(run, sizes, options.probe);
  run.end_watch();
  if (process.device.is_cuda()) {
    const int64_t own = device::properties(process.device).memory_bytes;
    plan::compare_with_gpus(report.request, dist::all_gather_object(process.host, own));
  }
  complete(report, loaded.config, options, link);
  return report;
}

// What is wrong with the flags is said before anything is measured. `has_link`: there are ranks to
// measure one between.
void check_flags(const Options& options, bool has_link) {
  speed_of(options.speed);
  if (!options.card.empty()) card_named(options.card);
  const plan::Link any{.name = "measured", .bytes_per_second = 1};
  plan::parse_interconnect(options.interconnect, has_link ? &any : nullptr, /*gpus=*/true);
}

void add_flags(CLI::App& app, Options& options) {
  app.add_option("--ranks", options.ranks, "numbers of ranks to plan for, joined by commas")
      ->allow_extra_args(false)
      ->delimiter(',')
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--ranks-per-node", options.ranks_per_node,
                 "ranks that share a node and its network (default: 8; 1 for a link that was "
                 "measured or given as numbers)")
      ->check(whole_number(1, 1 << 20));
  app.add_option(
      "--interconnect", options.interconnect,
      "INSIDE+BETWEEN: the link inside a node and the one between nodes, or one of them: a name "
      "such as nvlink4, pcie4, pcie4-host, shm, 25gbe, ib400, a number of them (4xib100), "
      "ALPHA,BETA (µs of a message, GB/s), or measured: between the ranks of this mpirun, which is "
      "the default there (docs/planning.md lists the names)");
  app.add_option(
         "--device-speed", options.speed,
         "how many times as fast as this device the planned ones compute; measured: as fast as it")
      ->capture_default_str();
  app.add_option("--card", options.card,
                 "check that the memory fits a card, such as rtx3090, a100-80, h100; its ranks use "
                 "NCCL (default: the GPU that measures)");
  app.add_option("--scaling", options.scaling,
                 "keep: the global batch stays, by fewer or smaller micro-steps; grow: each rank "
                 "keeps its batch (default: keep where the configuration sets train.global_batch)")
      ->check(CLI::IsMember({"keep", "grow"}));
  app.add_option("--measured", options.measured,
                 "plan from this file of `dtrain bench step --json FILE`, of another machine, and "
                 "measure nothing");
  add_number(app, "--steps", options.probe.steps, 2, 1 << 30,
             "optimizer steps to measure for each size of micro-batch");
  add_number(app, "--seconds", options.probe.seconds, 0.01, 3600,
             "at most, for each size; fewer steps where they would take longer");
  options.output.add_to(app);
}

}  // namespace

int run_plan(const Arguments& arguments) {
  CLI::App app(
      "what a run would be on other numbers of ranks: its batches, memory, bytes on the wire, time "
      "and efficiency, predicted from steps that are measured here and from a named interconnect. "
      "Nothing is trained, and nothing written but quick-start data. Exit code 1: one of these "
      "runs would not fit or makes no sense",
      "dtrain plan");
  Options options;
  add_flags(app, options);
  // A plan from a file needs no data.
  const bool measures = std::ranges::none_of(arguments, [](const std::string& word) {
    return word == "--measured" || word.starts_with("--measured=");
  });
  const std::optional<config::Loaded> loaded =
      parse_with_config(app, arguments, /*check_dataset=*/measures);
  if (!loaded) return 0;
  config::Device device = loaded->config.device;
  if (!options.measured.empty()) device.type = config::DeviceType::kCpu;  // only calculates
  return job::launch(device, [&](job::ProcessContext& process) {
    PlanReport report;
    config::Loaded preset = *loaded;  // with the preset's values, if there is one
    if (!options.measured.empty() && !preset.config.device.preset.empty()) {
      job::apply_preset(process.host, process.device, preset);
    }
    dist::agree(process.host, [&] {
      check_flags(options, process.world.size > 1 && options.measured.empty());
      if (!options.measured.empty()) report = from_file(preset, options);
    });
    if (options.measured.empty()) {
      report = measured_here(process, *loaded, options, options.output);
    } else {
      Inputs inputs = inputs_of(*loaded);
      inputs.files.emplace_back(options.measured);
      options.output.open(process.host, inputs);
    }
    options.output.write(
        process.host, [&] { return plan_text(report); }, [&] { return plan_json(report); });
    return report.is_blocked() ? kExitFound : 0;
  });
}

}  // namespace dtrain::cli
