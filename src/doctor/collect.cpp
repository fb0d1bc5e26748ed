#include "doctor/collect.h"

#include <torch/nn/module.h>

#include <chrono>
#include <thread>

#include "core/clock.h"
#include "device/device.h"
#include "dist/clock_offsets.h"
#include "dist/failure.h"
#include "dist/launcher.h"
#include "dist/nccl_communicator.h"
#include "dist/object_collectives.h"
#include "doctor/other_load.h"
#include "job/data_set.h"
#include "job/quickstart.h"
#include "job/same_start.h"
#include "job/version.h"
#include "monitoring/http_server.h"
#include "tasks/task.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::doctor {
namespace {

namespace fs = std::filesystem;

// How long the host is observed: ten ticks of its counters at least.
constexpr std::chrono::milliseconds kObserved{300};

constexpr const char* kVariables[] = {"CUDA_LAUNCH_BLOCKING",
                                      "CUDA_VISIBLE_DEVICES",
                                      "HDF5_USE_FILE_LOCKING",
                                      "LD_PRELOAD",
                                      "NCCL_P2P_DISABLE",
                                      "NCCL_SHM_DISABLE",
                                      "NCCL_SOCKET_IFNAME",
                                      "OMP_NUM_THREADS",
                                      "OMPI_MCA_btl",
                                      "OMPI_MCA_btl_tcp_if_exclude",
                                      "OMPI_MCA_btl_tcp_if_include"};

// What `step` throws, as text.
template <typename Step>
std::string problem_of(const Step& step) {
  try {
    step();
    return "";
  } catch (...) {
    return dist::describe(std::current_exception()).message;
  }
}

void describe_start(const config::Config& config, const dist::World& world, RankFacts& facts) {
  std::error_code unknown;
  facts.program = fs::read_symlink("/proc/self/exe", unknown).string();
  if (const uint64_t hash = job::program_hash()) facts.program_hash = hex(hash);
  facts.versions = job::version_text();
  facts.nccl = dist::nccl_versions();
  facts.keys = job::keys_of_start(config, /*reads_init=*/true);
  for (const char* name : kVariables) {
    if (const std::string value = dist::library_variable(name); !value.empty())
      facts.variables[name] = value;
  }
  if (config.device.threads > 0) {
    facts.variables.erase("OMP_NUM_THREADS");  // the key decides
  }
  if (!config.metrics.enabled) return;
  const int64_t port = config.metrics.port == 0 ? 0 : config.metrics.port + world.local_rank;
  facts.port = str(config.metrics.bind, ":", port);
  facts.port_problem =
      port > 65535 ? "the highest port is 65535"
                   : monitoring::why_not_served(config.metrics.bind, static_cast<int>(port));
}

void describe_device(const config::Config& config, const dist::World& world, RankFacts& facts) {
  facts.device_problem = problem_of([&] {
    facts.visible_gpus = device::gpu_count();
    const at::Device device = device::choose(config.device, world.local_rank);
    facts.device = device.is_cuda() ? str("cuda:", int{device.index()}) : "cpu";
    if (device.is_cuda()) facts.gpu = examine_gpu(device.index());
  });
  facts.driver = device::find_driver().version;
  if (facts.device_problem.empty() && facts.device == "cpu" && facts.visible_gpus == 0)
    facts.device_problem = device::unusable_gpu();
}

// The bytes of one micro-batch as the network reads it. Samples of different lengths: as long as
// they are on average.
int64_t batch_bytes(const config::Config& config, const data::Store& store,
                    const tasks::DataFacts& facts) {
  const data::Field& input = store.schema().input;
  const int64_t side = config.model.image_size;
  if (input.element == data::Element::kUint8)
    return config.train.batch_size * side * side * 3 * int64_t{sizeof(float)};
  const double rows = input.variable() ? facts.mean_rows : 1;
  return static_cast<int64_t>(static_cast<double>(config.train.batch_size * input.row_bytes()) *
                              rows);
}

NetworkFacts describe_network(const config::Config& config, const job::DataSet& data) {
  const tasks::DataFacts samples =
      data.store ? tasks::facts_of(*data.store, data.splits.train) : tasks::DataFacts{};
  const std::unique_ptr<tasks::Task> task = tasks::make_task(config, samples);
  if (data.store) task->check(*data.store);
  NetworkFacts facts;
  int64_t learned = 0;
  for (const at::Tensor& parameter : task->model().parameters()) {
    facts.parameters += parameter.numel();
    learned += static_cast<int64_t>(parameter.nbytes());
  }
  facts.model_bytes = learned;
  for (const at::Tensor& buffer : task->model().buffers())
    facts.model_bytes += static_cast<int64_t>(buffer.nbytes());
  const bool adam = config.optimizer.name != config::OptimizerName::kSgd;
  facts.optimizer_bytes = adam ? 2 * learned : config.optimizer.momentum > 0 ? learned : 0;
  facts.batch_bytes = data.store ? batch_bytes(config, *data.store, samples) : 0;
  return facts;
}

void describe_files(job::ProcessContext& process, const config::Config& config, RankFacts& facts) {
  job::DataSet data;
  std::string file = config.data.file;
  if (file.empty()) {  // the quick start's, if an earlier run has generated it
    std::error_code unknown;
    const fs::path generated = job::quickstart_file(config);
    if (fs::exists(generated, unknown)) file = generated.string();
  }
  if (!file.empty()) {
    facts.data_file = file;
    facts.data_problem = problem_of([&] {
      data = job::open_data(process.prober, file, config);
      facts.data_checksum = hex(data.store->schema().checksum);
    });
    facts.data_system = os::read_file_system(file);
    facts.data_lock = str(os::try_lock(file));
  }
  if (process.world.rank != 0) return;
  facts.run_system = os::read_file_system(config.run.folder);
  facts.run_lock = str(os::try_lock(facts.run_system->folder));
  if (!facts.data_problem.empty()) {
    facts.network_problem = "the data cannot be used";
    return;
  }
  const std::string problem = problem_of([&] { facts.network = describe_network(config, data); });
  if (problem.empty()) return;
  // Without data, a network whose size depends on them cannot be made, which is no fault.
  facts.network_problem = data.store ? "the network cannot be made" : "no data file is there yet";
  if (data.store) facts.network_refused = problem;
}

// All ranks rest meanwhile, so that what is busy is not theirs.
void observe_load(dist::Communicator& host, RankFacts& facts) {
  os::CounterReader counters;
  const auto read = [&] { return Reading{counters.machine(), counters.process()}; };
  host.barrier();
  const Reading before = read();
  std::this_thread::sleep_for(kObserved);
  const Reading after = read();
  struct Own {
    int host;
    double cpu;
  };
  std::vector<double> here;
  for (const Own& theirs :
       dist::all_gather_object(host, Own{facts.host, own_cpu(before, after).value_or(0)})) {
    if (theirs.host == facts.host) here.push_back(theirs.cpu);
  }
  facts.other_cpu = other_cpu(before, after, here);
  facts.stolen_cpu = stolen_cpu(before, after);
}

}  // namespace

std::vector<RankFacts> collect(job::ProcessContext& process, const config::Config& config,
                               std::optional<int64_t> free_shared_memory) {
  const dist::World& world = process.world;
  RankFacts facts;
  facts.rank = world.rank;
  facts.local_rank = world.local_rank;
  facts.local_size = world.local_size;
  facts.host = world.host;
  facts.node = world.node;
  observe_load(process.host, facts);
  const dist::ClockOffset offset = dist::clock_offsets(
      process.host, [] { return unix_seconds(); })[static_cast<size_t>(world.rank)];
  facts.clock_offset = offset.seconds;
  facts.clock_spread = offset.error;
  facts.machine = os::read_facts();
  facts.machine.free_shared_memory = free_shared_memory;
  facts.threads = process.threads;
  facts.readers = job::reader_threads(config.data.workers, process.cores);
  describe_start(config, world, facts);
  describe_files(process, config, facts);
  // last: a copy that hangs leaves the device unusable
  describe_device(config, world, facts);
  facts.resident_bytes = device::memory_use(at::kCPU).reserved;
  std::vector<RankFacts> all;
  for (const std::string& theirs : dist::all_gather_object(process.host, to_json(facts))) {
    all.push_back(rank_facts_from_json(theirs));
  }
  return all;
}

}  // namespace dtrain::doctor
