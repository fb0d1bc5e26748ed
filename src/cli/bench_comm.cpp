// `dtrain bench comm`: what the communicators of a run cost, by operation and size.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/table_output.h"
#include "core/error.h"
#include "job/comm_bench.h"
#include "job/process_context.h"
#include "text/strings.h"
#include "text/text_table.h"

namespace dtrain::cli {
namespace {

using dist::Collective;
using job::CommunicatorCost;
using job::OperationCost;
using Json = nlohmann::ordered_json;

std::string name_of(Collective operation) {
  return dist::kCollectiveNames[static_cast<size_t>(operation)];
}

// As nccl-tests names it.
const char* type_name(at::ScalarType dtype) {
  return dtype == at::kBFloat16 ? "bfloat16" : dtype == at::kHalf ? "half" : "float";
}

std::string fit_text(const OperationCost& operation) {
  const dist::CostFit& fit = operation.fit;
  std::string text = str("  fit: ", fixed(fit.latency * 1e6, 2), " us + ",
                         fixed(fit.seconds_per_byte * 1e9, 4), " ns per byte");
  if (fit.seconds_per_byte > 0) text += str(" (", fixed(1e-9 / fit.seconds_per_byte, 2), " GB/s)");
  text += str("; half of the sizes are within ", fixed(100 * fit.residual, 1), " % of it\n");
  if (operation.left_out > 0) {
    text +=
        str("  left out: the ", operation.left_out, " largest, for which --seconds is too short\n");
  }
  return text;
}

std::string table_of(const OperationCost& operation, int ranks) {
  std::vector<TextRow> rows;
  for (const dist::ProbedSize& size : operation.sizes) {
    rows.push_back({str(size.bytes), str(size.elements), type_name(size.dtype),
                    operation.operation == Collective::kAllReduce ? "sum" : "none",
                    operation.operation == Collective::kBroadcast ? "0" : "-1",
                    fixed(size.seconds.median * 1e6, 2),
                    fixed(dist::algorithm_bandwidth(size) * 1e-9, 3),
                    fixed(dist::bus_bandwidth(size, ranks) * 1e-9, 3), str(size.wrong),
                    fixed(size.seconds.low * 1e6, 2), fixed(size.seconds.high * 1e6, 2),
                    str(size.seconds.count)});
  }
  return text_table({"size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong",
                     "min", "max", "times"},
                    rows, {Align::kRight, Align::kRight, Align::kLeft, Align::kLeft}) +
         fit_text(operation);
}

std::string text_of(const std::vector<CommunicatorCost>& communicators, int ranks) {
  std::string text;
  if (ranks == 1) {
    for (const CommunicatorCost& one : communicators)
      text += str(one.name, " (", one.implementation, ", ", one.device, ")\n");
    return text +
           "1 rank: nothing travels, so there is nothing to measure. Start several: mpirun -np N "
           "dtrain bench comm\n";
  }
  text =
      str("Sizes in bytes, times in us (median, min and max of the slowest rank), bandwidths in "
          "GB/s, as nccl-tests; ",
          ranks, " ranks\n");
  for (const CommunicatorCost& one : communicators) {
    for (const OperationCost& operation : one.operations) {
      text += str("\n", one.name, " (", one.implementation, ", ", one.device,
                  "): ", name_of(operation.operation), "\n", table_of(operation, ranks));
    }
  }
  if (job::has_wrong_values(communicators)) {
    text +=
        "\nWRONG VALUES: what arrived is not what was sent. On GPUs without NVLink try "
        "NCCL_P2P_DISABLE=1\n";
  }
  return text;
}

Json json_of(const OperationCost& operation, int ranks) {
  Json sizes = Json::array();
  for (const dist::ProbedSize& size : operation.sizes) {
    sizes.push_back({{"bytes", size.bytes},
                     {"count", size.elements},
                     {"type", type_name(size.dtype)},
                     {"seconds", size.seconds.median},
                     {"seconds_min", size.seconds.low},
                     {"seconds_max", size.seconds.high},
                     {"times", size.seconds.count},
                     {"algbw_bytes_per_second", dist::algorithm_bandwidth(size)},
                     {"busbw_bytes_per_second", dist::bus_bandwidth(size, ranks)},
                     {"wrong", size.wrong}});
  }
  return {{"operation", name_of(operation.operation)},
          {"sizes", std::move(sizes)},
          {"left_out", operation.left_out},
          {"fit",
           {{"latency_seconds", operation.fit.latency},
            {"seconds_per_byte", operation.fit.seconds_per_byte},
            {"residual", operation.fit.residual}}}};
}

std::string json_of(const std::vector<CommunicatorCost>& communicators, int ranks) {
  Json all = Json::array();
  for (const CommunicatorCost& one : communicators) {
    Json operations = Json::array();
    for (const OperationCost& operation : one.operations)
      operations.push_back(json_of(operation, ranks));
    all.push_back({{"communicator", one.name},
                   {"implementation", one.implementation},
                   {"device", one.device},
                   {"operations", std::move(operations)}});
  }
  return Json{{"bench", "comm"}, {"ranks", ranks}, {"communicators", std::move(all)}}.dump(2) +
         "\n";
}

}  // namespace

int run_bench_comm(const Arguments& arguments) {
  CLI::App app(
      "the communicators of a run: time and bandwidth of each operation by size, in the columns of "
      "nccl-tests (size of all ranks together for all_gather; algbw = size / time; busbw = algbw × "
      "2(n-1)/n for all_reduce, (n-1)/n for all_gather, 1 for broadcast), and the latency and "
      "bandwidth that explain them. Exit code 1: a result had wrong values",
      "dtrain bench comm");
  int64_t smallest = 4, largest = int64_t{128} << 20, factor = 4;
  job::CommBenchOptions options;
  TableOutput output;
  constexpr int64_t kMost = int64_t{1} << 34;
  add_number(app, "--min-bytes", smallest, 4, kMost, "the smallest size");
  add_number(app, "--max-bytes", largest, 4, kMost, "the largest size");
  add_number(app, "--factor", factor, 2, 1 << 20, "each size is this many times the one before");
  add_number(app, "--seconds", options.seconds, 0.001, 3600,
             "about how long each operation of each communicator is measured");
  output.add_to(app);
  const std::optional<config::Loaded> loaded =
      parse_with_config(app, arguments, /*check_dataset=*/false);
  if (!loaded) return 0;
  if (largest < smallest)
    throw UsageError("dtrain bench comm: --max-bytes is smaller than --min-bytes");
  options.sizes = job::sizes_between(smallest, largest, factor);
  return job::launch(loaded->config.device, [&](job::ProcessContext& process) {
    output.open(process.host, inputs_of(*loaded));
    const std::vector<CommunicatorCost> communicators =
        job::bench_communicators(process, loaded->config, options);
    const int ranks = process.world.size;
    output.write(
        process.host, [&] { return text_of(communicators, ranks); },
        [&] { return json_of(communicators, ranks); });
    return job::has_wrong_values(communicators) ? kExitFound : 0;
  });
}

}  // namespace dtrain::cli
