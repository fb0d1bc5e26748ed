#include "tune/memory_trial.h"

#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "config/load.h"
#include "config/print.h"
#include "core/error.h"
#include "dist/launcher.h"
#include "job/process_context.h"
#include "job/step_probe.h"
#include "job/training_job.h"
#include "os/child_process.h"
#include "os/run_child.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::tune {
namespace {

using Json = nlohmann::json;

int measure(job::ProcessContext& process, const config::Config& config, int64_t batch_size) {
  config::Loaded loaded;
  loaded.config = config;
  job::PreparedRun prepared =
      job::plan_training(process, loaded, /*dry_run=*/true).open_data().make_task();
  prepared.keep_longest(batch_size);
  const job::ConnectedRun run = std::move(prepared).place_on_device().connect();
  const job::StepProbe probe =
      job::probe_step(run, {.batch_size = batch_size, .accumulate = 1, .steps = 0});
  run.end_watch();
  Json result = {{"out_of_memory", probe.out_of_memory}, {"process", probe.process_memory}};
  for (const auto& [name, bytes] : train::kMemoryKinds) result[name] = probe.memory.*bytes;
  std::cout << result.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace)
            << std::endl;
  return 0;
}

MemoryTrial result_of(const ChildEnd& end) {
  MemoryTrial trial;
  try {
    const Json result = Json::parse(end.output);
    trial.out_of_memory = result.at("out_of_memory").get<std::string>();
    trial.process_bytes = result.at("process").get<int64_t>();
    for (const auto& [name, bytes] : train::kMemoryKinds)
      trial.memory.*bytes = result.at(name).get<int64_t>();
  } catch (const Json::exception&) {
    throw Error(str("a trial of memory ended without a result: ", last_line(end.errors)));
  }
  return trial;
}

}  // namespace

MemoryTrial try_memory(const config::Config& config, const MemoryTrialOptions& options,
                       const std::function<bool()>& stop) {
  config::Config alone = config;
  alone.device.threads = options.threads;
  // Never auto: without its GPU the trial would tell of the host's memory.
  alone.device.type = options.gpu < 0 ? config::DeviceType::kCpu : config::DeviceType::kCuda;
  alone.dist.backend = config::Backend::kAuto;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const ChildEnd end = run_child(
      {program, "tune", kMemoryTrial, str(::getpid()), str(options.batch_size)},
      dist::environment_of_lone_process(dist::environment(), options.gpu), config::to_yaml(alone),
      {.seconds = options.seconds, .resident_bytes = options.kill_bytes}, stop);
  MemoryTrial trial;
  switch (end.why) {
    case ChildEnd::Why::kStopped:
    case ChildEnd::Why::kTooLong:
      trial.ended = true;
      return trial;
    case ChildEnd::Why::kTooLarge:
      trial.out_of_memory =
          str("it used more than ", human_bytes(static_cast<double>(options.kill_bytes)));
      return trial;
    case ChildEnd::Why::kSignaled:
      if (end.code != SIGKILL) {
        throw Error(str("a trial of memory with a batch of ", options.batch_size,
                        " was ended by signal ", end.code, ": ", last_line(end.errors)));
      }
      trial.out_of_memory = "the kernel ended it: the host's memory is full";
      return trial;
    case ChildEnd::Why::kExited:
      break;
  }
  if (end.code == DeviceError("").exit_code()) {
    trial.out_of_memory = last_line(end.errors);
    return trial;
  }
  if (end.code != 0)
    throw Error(str("a trial of memory failed: ", last_line(end.errors)), end.code);
  return result_of(end);
}

int run_memory_trial(const std::vector<std::string>& arguments) {
  const std::optional<int64_t> parent =
      arguments.size() == 3 ? parse_number<int64_t>(arguments[1]) : std::nullopt;
  const std::optional<int64_t> batch_size =
      parent ? parse_number<int64_t>(arguments[2]) : std::nullopt;
  if (!batch_size || *batch_size < 1)
    throw UsageError(str(kMemoryTrial, " is for dtrain itself: use `dtrain tune`"));
  if (!end_with_parent(*parent)) return 1;
  const std::string text{std::istreambuf_iterator<char>(std::cin),
                         std::istreambuf_iterator<char>()};
  const config::Config config = config::from_yaml(text, "the configuration of the trial");
  return job::launch(config.device, [&](job::ProcessContext& process) {
    return measure(process, config, *batch_size);
  });
}

}  // namespace dtrain::tune
