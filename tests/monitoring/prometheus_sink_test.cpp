#include "monitoring/prometheus_sink.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include <fstream>
#include <limits>

#include "core/error.h"
#include "monitoring/http_client.h"
#include "monitoring/sample_stats.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "text/strings.h"

namespace dtrain::monitoring {
namespace {

using measure::Quantity;
using testing::HttpClient;
using testing::sample_eval;
using testing::sample_step;
using testing::scrape;
using testing::value_of;

config::Metrics any_port() {
  config::Metrics metrics;
  metrics.port = 0;
  return metrics;
}

Identity rank(int rank) {
  Identity id;
  id.job_id = "job";
  id.rank = id.local_rank = rank;
  id.node = "node-a";
  id.build = {{"version", "0.1.0"}, {"torch", "2.11.0"}};
  id.job = {{"task", "headpose"}, {"world_size", "2"}};
  return id;
}

// A port that something else listens on, as long as it lives.
class TakenPort {
 public:
  TakenPort() : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(fd_, 1) != 0)
      port_ = -1;
    socklen_t size = sizeof address;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    if (port_ == 0) port_ = ntohs(address.sin_port);
  }
  ~TakenPort() { ::close(fd_); }
  int port() const { return port_; }

 private:
  int fd_;
  int port_ = 0;
};

TEST(PrometheusSink, ServesTheNumbersOfAStep) {
  const auto sink = make_prometheus_sink(any_port(), rank(0));
  ASSERT_EQ(sink->address().rfind("127.0.0.1:", 0), 0u)
      << "by default only this machine can connect";
  sink->state(LiveState::kTraining);
  StepStats s = sample_step();
  s.padding_waste = 0.25;
  s.logging = false;
  for (s.step = 1; s.step < 10; ++s.step) sink->record(s);
  EXPECT_EQ(value_of(scrape(sink->address()), "dtrain_loss"), "") << "absent until it is known";
  s.logging = true;
  sink->record(s);
  const std::string page = scrape(sink->address());
  EXPECT_EQ(value_of(page, "dtrain_steps_total",
                     "job_id=\"job\",local_rank=\"0\",node=\"node-a\",rank=\"0\""),
            "10");
  EXPECT_EQ(value_of(page, "dtrain_samples_total"), "1280");
  EXPECT_EQ(value_of(page, "dtrain_step_duration_seconds_count"), "10");
  EXPECT_EQ(value_of(page, "dtrain_step_duration_seconds_bucket", "le=\"0.5\""), "10");
  EXPECT_EQ(value_of(page, "dtrain_step_duration_seconds_bucket", "le=\"0.2\""), "0");
  EXPECT_DOUBLE_EQ(std::stod(value_of(page, "dtrain_phase_seconds_total", "phase=\"backward\"")),
                   1.502);
  EXPECT_EQ(value_of(page, "dtrain_loss", "split=\"train\""), "0.1234");
  EXPECT_EQ(value_of(page, "dtrain_learning_rate"), "0.001");
  EXPECT_EQ(value_of(page, "dtrain_amp_loss_scale"), "65536");
  EXPECT_EQ(value_of(page, "dtrain_padding_ratio"), "0.25");
  EXPECT_EQ(value_of(page, "dtrain_reduced_bytes_total"), "10000");
  EXPECT_EQ(value_of(page, "dtrain_loader_bytes_total"), "20000");
  EXPECT_EQ(value_of(page, "dtrain_loader_queue_depth"), "3");
  EXPECT_EQ(value_of(page, "dtrain_build_info", "torch=\"2.11.0\""), "1");
  EXPECT_EQ(value_of(page, "dtrain_job_info", "task=\"headpose\",world_size=\"2\""), "1");
  EXPECT_EQ(value_of(page, "dtrain_run_state", "state=\"training\""), "1");
  EXPECT_EQ(value_of(page, "dtrain_run_state", "state=\"starting\""), "0");
  EXPECT_EQ(value_of(page, "dtrain_gpus"), "0");
  EXPECT_EQ(page.find("dtrain_gpu_"), std::string::npos) << "no GPU, no GPU series";
}

TEST(PrometheusSink, WhereTheTimeOfARankWent) {
  const auto sink = make_prometheus_sink(any_port(), rank(1));
  StepStats s = sample_step();
  s.step = 10;
  s.own = measure::RankMeans{.rank = 1,
                             .values = {{Quantity::kReadSeconds, 0.5},
                                        {Quantity::kAugmentSeconds, 0.25},
                                        {Quantity::kQueue, 0.75},
                                        {Quantity::kRunDelay, 0.125},
                                        {Quantity::kCommDelay, 0.25},
                                        {Quantity::kCores, 2},
                                        {Quantity::kThreads, 9}}};
  s.own->times.launch = 0.375;
  s.own->times.buckets = {0.25, 0, 0.5};
  // The steps before an evaluation too
  s.own->times.phases[static_cast<size_t>(measure::Phase::kForward)] = 0.5;
  s.own->times.wall = 0.625;
  sink->record(s);
  const std::string page = scrape(sink->address());
  EXPECT_EQ(value_of(page, "dtrain_phase_seconds_total", "phase=\"forward\""), "5");
  EXPECT_EQ(value_of(page, "dtrain_phase_seconds_total", "phase=\"other\""), "1.25");
  EXPECT_EQ(value_of(page, "dtrain_loader_seconds_total", "stage=\"read\""), "5");
  EXPECT_EQ(value_of(page, "dtrain_loader_seconds_total", "stage=\"augment\""), "2.5");
  EXPECT_EQ(value_of(page, "dtrain_loader_seconds_total", "stage=\"decode\""), "")
      << "not measured";
  EXPECT_EQ(value_of(page, "dtrain_run_delay_seconds_total"), "1.25");
  EXPECT_EQ(value_of(page, "dtrain_comm_run_delay_seconds_total"), "2.5");
  EXPECT_EQ(value_of(page, "dtrain_launch_seconds_total"), "3.75");
  EXPECT_EQ(page.find("dtrain_padding_ratio"), std::string::npos) << "rank 0 has it";
  EXPECT_EQ(value_of(page, "dtrain_loader_queue_ratio"), "0.75");
  EXPECT_EQ(value_of(page, "dtrain_backward_to_bucket_seconds", "bucket=\"first\""), "0.25");
  EXPECT_EQ(value_of(page, "dtrain_backward_to_bucket_seconds", "bucket=\"middle\""), "")
      << "not during backward";
  EXPECT_EQ(value_of(page, "dtrain_backward_to_bucket_seconds", "bucket=\"last\""), "0.5");
  EXPECT_EQ(value_of(page, "dtrain_cores"), "2");
  EXPECT_EQ(value_of(page, "dtrain_threads"), "9");
}

// At the end of the warm-up a rank has measurements, though it logs nothing.
TEST(PrometheusSink, WhatARankMeasuredCountsForTheStepsThatItIsOf) {
  const auto sink = make_prometheus_sink(any_port(), rank(1));
  StepStats s = sample_step();
  s.step = 6;
  s.logging = false;
  s.own = measure::RankMeans{.rank = 1, .values = {{Quantity::kCpu, 2}}};
  sink->record(s);
  s.step = 10;
  s.logging = true;
  s.own->values[Quantity::kCpu] = 0.5;
  sink->record(s);
  EXPECT_EQ(value_of(scrape(sink->address()), "dtrain_cpu_seconds_total"), "14");
}

TEST(PrometheusSink, WhatProcessAndHostDidCountsUpAndWhatWasNotMeasuredIsAbsent) {
  const auto sink = make_prometheus_sink(any_port(), rank(0));
  StepStats s = sample_step();
  s.step = 10;
  s.own = measure::RankMeans{
      .values = {{Quantity::kSamples, 8},          {Quantity::kReadSeconds, 0.5},
                 {Quantity::kDecodeSeconds, 0.25}, {Quantity::kAugmentSeconds, 0},
                 {Quantity::kFewSamples, 2},       {Quantity::kManySamples, 6},
                 {Quantity::kFewSeconds, 0.125},   {Quantity::kManySeconds, 0.625},
                 {Quantity::kLoaderWait, 0.5},     {Quantity::kLoaderFull, 0},
                 {Quantity::kCpu, 0.75},           {Quantity::kThrottled, 0.25},
                 {Quantity::kDiskBytes, 4096},     {Quantity::kMajorFaults, 0},
                 {Quantity::kHostBusy, 2},         {Quantity::kHostIdle, 5},
                 {Quantity::kHostIoWait, 1},       {Quantity::kHostSteal, 0.5},
                 {Quantity::kReadAgain, 8192},     {Quantity::kFreeMemory, 1e9}}};
  sink->record(s);
  s.step = 14;
  s.own->values[Quantity::kCpu] = 0.5;
  s.own->values[Quantity::kHostBusy] = measure::kUnknown;
  sink->record(s);
  const std::string page = scrape(sink->address());
  EXPECT_EQ(value_of(page, "dtrain_loader_seconds_total", "stage=\"augment\""), "0")
      << "measured: it took no time";
  EXPECT_EQ(value_of(page, "dtrain_loader_wait_seconds_total", "side=\"empty\""), "7");
  EXPECT_EQ(value_of(page, "dtrain_loader_wait_seconds_total", "side=\"full\""), "0");
  EXPECT_EQ(value_of(page, "dtrain_loader_samples_total", "readers=\"few\""), "28");
  EXPECT_EQ(value_of(page, "dtrain_loader_samples_total", "readers=\"many\""), "84");
  EXPECT_EQ(value_of(page, "dtrain_loader_service_seconds_total", "readers=\"few\""), "1.75");
  EXPECT_EQ(value_of(page, "dtrain_loader_service_seconds_total", "readers=\"many\""), "8.75");
  EXPECT_EQ(value_of(page, "dtrain_cpu_seconds_total"), "9.5");
  EXPECT_EQ(value_of(page, "dtrain_cpu_throttled_seconds_total"), "3.5");
  EXPECT_EQ(value_of(page, "dtrain_disk_read_bytes_total"), "57344");
  EXPECT_EQ(value_of(page, "dtrain_major_faults_total"), "0");
  EXPECT_EQ(value_of(page, "dtrain_host_seconds_total", "kind=\"busy\""), "20")
      << "the second time it was unknown";
  EXPECT_EQ(value_of(page, "dtrain_host_seconds_total", "kind=\"idle\""), "70");
  EXPECT_EQ(value_of(page, "dtrain_host_seconds_total", "kind=\"iowait\""), "14");
  EXPECT_EQ(value_of(page, "dtrain_host_seconds_total", "kind=\"steal\""), "7");
  EXPECT_EQ(value_of(page, "dtrain_host_page_cache_refault_bytes_total"), "114688");
  EXPECT_EQ(value_of(page, "dtrain_host_free_memory_bytes"), "1000000000");
  EXPECT_EQ(value_of(page, "dtrain_host_swapped_in_bytes_total"), "") << "not measured";
  EXPECT_EQ(value_of(page, "dtrain_run_delay_seconds_total"), "") << "not measured";
  EXPECT_EQ(page.find("dtrain_gpu_"), std::string::npos) << "no GPU, no link";
}

TEST(PrometheusSink, TheFirstRankOfAHostExportsTheHost) {
  StepStats s = sample_step();
  s.own = measure::RankMeans{.values = {{Quantity::kCpu, 0.5},
                                        {Quantity::kHostBusy, 2},
                                        {Quantity::kLinkWidth, 8},
                                        {Quantity::kCardWidth, 16},
                                        {Quantity::kLinkGeneration, 4}}};
  Identity second_host = rank(2);
  second_host.local_rank = 0;
  for (const Identity& id : {rank(0), rank(1), second_host}) {
    const auto sink = make_prometheus_sink(any_port(), id);
    sink->record(s);
    const std::string page = scrape(sink->address());
    EXPECT_EQ(value_of(page, "dtrain_host_seconds_total", "kind=\"busy\"").empty(),
              id.local_rank != 0)
        << id.rank;
    EXPECT_EQ(value_of(page, "dtrain_cpu_seconds_total"), "60");
    EXPECT_EQ(value_of(page, "dtrain_gpu_pcie_lanes", "of=\"link\""), "8");
    EXPECT_EQ(value_of(page, "dtrain_gpu_pcie_lanes", "of=\"card\""), "16");
    EXPECT_EQ(value_of(page, "dtrain_gpu_pcie_generation", "of=\"link\""), "4");
    EXPECT_EQ(value_of(page, "dtrain_gpu_pcie_generation", "of=\"card\""), "") << "unknown";
  }
}

TEST(PrometheusSink, AVerdictTakesThePlaceOfTheOneBefore) {
  const auto sink = make_prometheus_sink(any_port(), rank(0));
  const auto cause = [](const char* name, int slow, double gain) {
    VerdictRecord::Cause made;
    made.name = name;
    made.rank = slow;
    made.gain = gain;
    made.setting = "--data.workers 8";
    return made;
  };
  sink->verdict(
      {.step = 100, .text = "", .causes = {cause("decode", 1, 0.25), cause("late_rank", 1, 0.5)}});
  EXPECT_EQ(value_of(scrape(sink->address()), "dtrain_verdict_gain_ratio", "cause=\"late_rank\""),
            "0.5");
  sink->verdict({.step = 200,
                 .text = "",
                 .causes = {cause("decode", -1, std::numeric_limits<double>::quiet_NaN())}});
  const std::string page = scrape(sink->address());
  EXPECT_EQ(value_of(page, "dtrain_verdict_gain_ratio", "cause=\"late_rank\""), "");
  EXPECT_EQ(
      value_of(page, "dtrain_verdict_gain_ratio", "setting=\"--data.workers 8\",slow_rank=\"\""),
      "Nan");
  const auto other = make_prometheus_sink(any_port(), rank(1));
  other->verdict({.step = 100, .text = "", .causes = {cause("decode", 1, 0.25)}});
  EXPECT_EQ(value_of(scrape(other->address()), "dtrain_verdict_gain_ratio"), "")
      << "rank 0 alone exports it";
}

TEST(PrometheusSink, AVerdictHasWhatWasMeasuredForIt) {
  const auto sink = make_prometheus_sink(any_port(), rank(0));
  sink->verdict(
      {.step = 100,
       .communication = {.late = 0.5, .latency = 0.125, .bandwidth = 0.25, .not_overlapped = 0},
       .probes = {.cached_step = 0.75, .seconds_per_byte = 0.5}});
  const std::string page = scrape(sink->address());
  EXPECT_EQ(value_of(page, "dtrain_communication_seconds", "part=\"late\""), "0.5");
  EXPECT_EQ(value_of(page, "dtrain_communication_seconds", "part=\"latency\""), "0.125");
  EXPECT_EQ(value_of(page, "dtrain_communication_seconds", "part=\"bandwidth\""), "0.25");
  EXPECT_EQ(value_of(page, "dtrain_communication_seconds", "part=\"not_overlapped\""), "0");
  EXPECT_EQ(value_of(page, "dtrain_communication_seconds", "part=\"other\""), "") << "not measured";
  EXPECT_EQ(value_of(page, "dtrain_headroom_step_seconds"), "0.75");
  EXPECT_EQ(value_of(page, "dtrain_all_reduce_seconds_per_byte"), "0.5");
  EXPECT_EQ(value_of(page, "dtrain_all_reduce_latency_seconds"), "") << "not measured";
}

TEST(PrometheusSink, CollectivesAndTheAllocatorByKind) {
  const auto sink = make_prometheus_sink(any_port(), rank(1));
  StepStats s = sample_step();
  s.logging = false;
  sink->record(s);
  EXPECT_EQ(value_of(scrape(sink->address()), "dtrain_collective_bytes_total"), "")
      << "known at logging steps";
  s.logging = true;
  sink->record(s);
  s.collectives[0].bytes = 7e6;  // totals, not differences
  s.values[Quantity::kAllocatorRetries] = 3;
  sink->record(s);
  const std::string page = scrape(sink->address());
  EXPECT_EQ(value_of(page, "dtrain_collective_bytes_total", "communicator=\"gradients\""),
            "7000000");
  EXPECT_EQ(value_of(page, "dtrain_collective_seconds_total", "op=\"all_reduce\""), "0.5");
  EXPECT_EQ(value_of(page, "dtrain_collective_bytes_total", "op=\"all_gather\""), "300");
  EXPECT_EQ(value_of(page, "dtrain_collective_seconds_total", "communicator=\"host\""), "0.125");
  EXPECT_DOUBLE_EQ(std::stod(value_of(page, "dtrain_device_memory_bytes", "kind=\"allocated\"")),
                   s.values[Quantity::kMemory]);
  EXPECT_DOUBLE_EQ(std::stod(value_of(page, "dtrain_device_memory_bytes", "kind=\"reserved\"")),
                   9e9);
  EXPECT_DOUBLE_EQ(std::stod(value_of(page, "dtrain_device_memory_bytes", "kind=\"peak\"")), 1e10);
  EXPECT_EQ(value_of(page, "dtrain_allocator_retries_total"), "3");
  EXPECT_EQ(value_of(page, "dtrain_out_of_memory_total"), "1");
}

TEST(PrometheusSink, EvaluationsCheckpointsAndSkips) {
  const auto sink = make_prometheus_sink(any_port(), rank(0));
  EXPECT_EQ(value_of(scrape(sink->address()), "dtrain_last_checkpoint_timestamp_seconds"), "");
  sink->record(sample_eval());
  sink->checkpoint_saved(120, 0.5);
  StepStats s = sample_step();
  s.values[Quantity::kSkippedSteps] = 2;
  sink->record(s);
  const std::string page = scrape(sink->address());
  EXPECT_EQ(value_of(page, "dtrain_loss", "split=\"val\""), "0.0123");
  EXPECT_EQ(value_of(page, "dtrain_eval_metric", "metric=\"mae_yaw\""), "7.1");
  EXPECT_EQ(value_of(page, "dtrain_eval_duration_seconds", "split=\"val\""), "3.2");
  EXPECT_EQ(value_of(page, "dtrain_last_checkpoint_step"), "120");
  EXPECT_EQ(value_of(page, "dtrain_checkpoints_total"), "1");
  EXPECT_EQ(value_of(page, "dtrain_last_checkpoint_duration_seconds"), "0.5");
  EXPECT_EQ(value_of(page, "dtrain_phase_seconds_total", "phase=\"eval\""), "3.2");
  EXPECT_EQ(value_of(page, "dtrain_phase_seconds_total", "phase=\"checkpoint\""), "0.5");
  EXPECT_EQ(value_of(page, "dtrain_optimizer_skips_total", "reason=\"inf_grad\""), "2");
  EXPECT_EQ(value_of(page, "dtrain_epochs_total"), "1");
}

TEST(PrometheusSink, GlobalSeriesComeFromRankZeroAlone) {
  const auto sink = make_prometheus_sink(any_port(), rank(1));
  sink->record(sample_step());
  sink->record(sample_eval());
  sink->checkpoint_saved(120, 0.5);
  const std::string page = scrape(sink->address());
  EXPECT_EQ(value_of(page, "dtrain_steps_total", "rank=\"1\""), "120");
  for (const char* name :
       {"dtrain_samples_total", "dtrain_loss", "dtrain_job_info", "dtrain_eval_metric",
        "dtrain_last_checkpoint_step", "dtrain_learning_rate"}) {
    EXPECT_EQ(value_of(page, name), "") << name;
  }
}

TEST(PrometheusSink, ExportsNanAndInfinity) {
  const auto sink = make_prometheus_sink(any_port(), rank(0));
  StepStats s = sample_step();
  s.loss = std::numeric_limits<double>::quiet_NaN();
  s.grad_norm = std::numeric_limits<double>::infinity();
  sink->record(s);
  const std::string page = scrape(sink->address());
  EXPECT_EQ(value_of(page, "dtrain_loss"), "Nan");
  EXPECT_EQ(value_of(page, "dtrain_grad_norm"), "+Inf");
}

TEST(PrometheusSink, AResumeContinuesFromTheCheckpoint) {
  const auto sink = make_prometheus_sink(any_port(), rank(0));
  sink->restore(119, 15232);
  EXPECT_EQ(value_of(scrape(sink->address()), "dtrain_steps_total"), "119");
  sink->record(sample_step());
  const std::string page = scrape(sink->address());
  EXPECT_EQ(value_of(page, "dtrain_steps_total"), "120");
  EXPECT_EQ(value_of(page, "dtrain_samples_total"), "15360");
  EXPECT_DOUBLE_EQ(std::stod(value_of(page, "dtrain_phase_seconds_total", "phase=\"backward\"")),
                   0.1502)
      << "one step since the restored one";
}

TEST(PrometheusSink, APortInUseIsNamedAndReplaced) {
  const TakenPort taken;
  ASSERT_GT(taken.port(), 1);
  config::Metrics metrics;
  metrics.port = taken.port() - 1;  // the port of local rank 1 is the taken one
  ::testing::internal::CaptureStderr();
  const auto sink = make_prometheus_sink(metrics, rank(1));
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find(str("rank 1 cannot serve its metrics on 127.0.0.1:", taken.port(),
                          " (Address already in use) and uses port ", sink->address().substr(10),
                          " instead")),
            std::string::npos)
      << text;
  sink->record(sample_step());
  EXPECT_EQ(value_of(scrape(sink->address()), "dtrain_steps_total"), "120");
}

TEST(PrometheusSink, APortAboveTheHighestIsReplaced) {
  config::Metrics metrics;
  metrics.port = 65535;
  ::testing::internal::CaptureStderr();
  const auto sink = make_prometheus_sink(metrics, rank(1));
  EXPECT_NE(
      ::testing::internal::GetCapturedStderr().find("127.0.0.1:65536 (the highest port is 65535)"),
      std::string::npos);
  EXPECT_FALSE(sink->address().empty());
}

TEST(PrometheusSink, ABadAddressIsLoggedAndTrainingContinues) {
  for (const auto& [bind, reason] : std::initializer_list<std::pair<const char*, const char*>>{
           {"[::1]", "it is not an IP address"},
           {"somewhere", "it is not an IP address"},
           {"192.0.2.1", "Cannot assign requested address"}}) {
    config::Metrics metrics;
    metrics.bind = bind;
    ::testing::internal::CaptureStderr();
    const auto sink = make_prometheus_sink(metrics, rank(0));
    const std::string text = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(text.find(reason), std::string::npos) << text;
    EXPECT_NE(text.find("Training continues without them"), std::string::npos) << text;
    EXPECT_NE(text.find(std::string("metrics on ") + bind + ":"), std::string::npos)
        << text;  // brackets once
    EXPECT_EQ(sink->address(), "");
    sink->record(sample_step());
  }
}

TEST(PrometheusSink, OnAllInterfacesTheAddressHasTheNameOfTheNode) {
  for (const char* bind : {"0.0.0.0", "::"}) {
    config::Metrics metrics = any_port();
    metrics.bind = bind;
    ::testing::internal::CaptureStderr();
    const auto sink = make_prometheus_sink(metrics, rank(0));
    const std::string text = ::testing::internal::GetCapturedStderr();
    if (sink->address().empty()) {  // a machine without IPv6
      EXPECT_NE(text.find("Address family not supported"), std::string::npos) << text;
      continue;
    }
    EXPECT_NE(text.find("without a password"), std::string::npos) << text;
    EXPECT_EQ(sink->address().rfind("node-a:", 0), 0u) << sink->address();
  }
}

TEST(PrometheusSink, AnIpv6AddressHasBrackets) {
  config::Metrics metrics = any_port();
  metrics.bind = "::1";
  const auto sink = make_prometheus_sink(metrics, rank(0));
  if (sink->address().empty()) return;  // a machine without IPv6
  EXPECT_EQ(sink->address().rfind("[::1]:", 0), 0u) << sink->address();
  EXPECT_EQ(value_of(scrape(sink->address()), "dtrain_steps_total"), "0");
}

TEST(PrometheusSink, ThePageIsPlainTextOfVersionZeroZeroFour) {
  const auto sink = make_prometheus_sink(any_port(), rank(0));
  HttpClient client(sink->address());
  EXPECT_EQ(client.get("/metrics").headers.at("content-type"),
            "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(client.get("/").status, 404);
}

TEST(PrometheusSink, AsksForThePasswordOfTheFile) {
  const dtrain::testing::TempDir folder;
  std::ofstream(folder / "auth") << "Aladdin:open sesame\n";
  ASSERT_EQ(::chmod((folder / "auth").c_str(), 0600), 0);
  config::Metrics metrics = any_port();
  metrics.bind = "0.0.0.0";
  metrics.auth_file = folder / "auth";
  ::testing::internal::CaptureStderr();
  const auto sink = make_prometheus_sink(metrics, rank(0));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "there is a password";
  const std::string address = "127.0.0.1" + sink->address().substr(sink->address().rfind(':'));
  EXPECT_EQ(HttpClient(address).get("/metrics").status, 401);
  const std::string page = scrape(address, "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n");
  EXPECT_EQ(value_of(page, "dtrain_steps_total"), "0");
}

TEST(PrometheusSink, AFileWithThePasswordThatOthersReadIsAConfigError) {
  const dtrain::testing::TempDir folder;
  std::ofstream(folder / "auth") << "user:password\n";
  ASSERT_EQ(::chmod((folder / "auth").c_str(), 0644), 0);
  config::Metrics metrics = any_port();
  metrics.auth_file = folder / "auth";
  dtrain::testing::expect_error<ConfigError>([&] { make_prometheus_sink(metrics, rank(0)); },
                                             {metrics.auth_file, "has mode 0644"});
}

TEST(PrometheusSink, AGpuThatCannotBeReadIsLogged) {
  Identity id = rank(0);
  id.gpu_pci_bus_id = "0000:ff:1f.7";
  ::testing::internal::CaptureStderr();
  const auto sink = make_prometheus_sink(any_port(), id);
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("the metrics have no readings of the GPU: "), std::string::npos) << text;
  EXPECT_EQ(value_of(scrape(sink->address()), "dtrain_gpus"), "0");
}

}  // namespace
}  // namespace dtrain::monitoring
