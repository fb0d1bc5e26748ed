#include "job/comm_bench.h"

#include <algorithm>
#include <memory>
#include <set>

#include "core/check.h"
#include "dist/bucket_transfer.h"
#include "dist/failure.h"
#include "dist/make_communicator.h"
#include "dist/watchdog.h"

namespace dtrain::job {
namespace {

using dist::Collective;

// How many sizes remain of those that were asked for, once each is rounded to whole values on
// every rank.
int64_t different_sizes(const std::vector<int64_t>& sizes, Collective operation, int64_t item_bytes,
                        int ranks) {
  const bool shared = operation == Collective::kAllGather;
  std::set<int64_t> elements;
  for (const int64_t bytes : sizes)
    elements.insert(std::max<int64_t>(1, bytes / item_bytes / (shared ? ranks : 1)));
  return static_cast<int64_t>(elements.size());
}

class Bench {
 public:
  Bench(ProcessContext& process, const config::Config& config, const CommBenchOptions& options)
      : process_(process),
        options_(options),
        watchdog_(process.world, config.dist.timeout, [&](const dist::PeerError& stall) {
          dist::report(dist::describe(stall));
          process_.mpi.abort(stall.exit_code());
        }) {}

  CommunicatorCost measure(const char* name, dist::Communicator& comm, at::Device device,
                           const std::vector<Collective>& operations,
                           at::ScalarType dtype = at::kFloat) {
    CommunicatorCost cost{
        .name = name, .implementation = std::string(comm.name()), .device = device.str()};
    if (comm.size() == 1) return cost;
    for (const Collective operation : operations) {
      watchdog_.progress("all_reduce", ++steps_);
      OperationCost one{.operation = operation};
      one.sizes = dist::probe(comm, device,
                              {.operations = {operation},
                               .sizes = options_.sizes,
                               .dtype = dtype,
                               .seconds = options_.seconds,
                               .check_values = true,
                               .progress = [this] { watchdog_.alive(); }});
      const auto item_bytes = static_cast<int64_t>(c10::elementSize(dtype));
      one.left_out = different_sizes(options_.sizes, operation, item_bytes, comm.size()) -
                     static_cast<int64_t>(one.sizes.size());
      one.fit = dist::fit_cost(one.sizes, operation);
      cost.operations.push_back(std::move(one));
    }
    return cost;
  }

  void close() { watchdog_.close(); }

 private:
  ProcessContext& process_;
  const CommBenchOptions& options_;
  dist::Watchdog watchdog_;
  int64_t steps_ = 0;
};

}  // namespace

std::vector<CommunicatorCost> bench_communicators(ProcessContext& process,
                                                  const config::Config& config,
                                                  const CommBenchOptions& options) {
  Bench bench(process, config, options);
  const bool shares_statistics = config.train.sync_batch_norm && process.world.size > 1;
  if (shares_statistics) dist::order_nccl_communicators();
  const auto make = [&] {
    return dist::make_gradient_communicator(process.host, config.dist, process.world,
                                            process.device);
  };
  std::vector<CommunicatorCost> all;
  const std::unique_ptr<dist::Communicator> gradients = make();
  all.push_back(bench.measure("gradients", *gradients, process.device, {Collective::kAllReduce},
                              dist::wire_dtype(config.dist.wire).value_or(at::kFloat)));
  if (shares_statistics) {
    const std::unique_ptr<dist::Communicator> statistics = make();
    all.push_back(
        bench.measure("statistics", *statistics, process.device, {Collective::kAllReduce}));
  }
  // Metric sums and decisions; states of ranks; checkpoints.
  all.push_back(
      bench.measure("host", process.host, at::kCPU,
                    {Collective::kAllReduce, Collective::kAllGather, Collective::kBroadcast}));
  bench.close();
  return all;
}

std::vector<int64_t> sizes_between(int64_t smallest, int64_t largest, int64_t factor) {
  DTRAIN_CHECK(smallest > 0 && largest >= smallest && factor > 1, smallest, " to ", largest, " by ",
               factor);
  std::vector<int64_t> sizes;
  int64_t size = smallest;
  for (; size < largest; size *= factor) {
    sizes.push_back(size);
    if (size > largest / factor) break;
  }
  sizes.push_back(largest);
  return sizes;
}

bool has_wrong_values(const std::vector<CommunicatorCost>& communicators) {
  for (const CommunicatorCost& communicator : communicators) {
    for (const OperationCost& operation : communicator.operations) {
      for (const dist::ProbedSize& size : operation.sizes) {
        if (size.wrong > 0) return true;
      }
    }
  }
  return false;
}

}  // namespace dtrain::job
