#pragma once

// A run folder made by hand, for the readers of runs.

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temp_dir.h"
#include "text/strings.h"

namespace dtrain::testing {

class RunFolder {
 public:
  RunFolder() { std::filesystem::create_directory(path()); }
  std::filesystem::path path() const { return folder_ / "r"; }
  std::filesystem::path parent() const { return folder_.path(); }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path() / name).parent_path());
    std::ofstream(path() / name, std::ios::binary) << text;
  }
  void record(const std::string& json) const {
    std::ofstream(path() / "metrics.jsonl", std::ios::app | std::ios::binary) << json << "\n";
  }
  // A step of 100 ms: 60 backward, 30 forward, 5 waiting for data, and 5 that no phase covers.
  void step(int64_t step, double loss = 1, double speed = 320, const std::string& more = "") const {
    record(str(R"({"kind":"step","time":)", 1000 + step, R"(,"step":)", step, R"(,"epoch":)",
               (step - 1) / 100, R"(,"loss":)", loss,
               R"(,"learning_rate":0.001,"grad_norm":0.5,"loss_scale":null,"samples_per_second":)",
               speed,
               R"(,"step_seconds":0.1,"phase_seconds":{"data_wait":0.005,"h2d":0,"forward":0.03,)"
               R"("backward":0.06},)",
               R"("memory_used_bytes":1073741824,"memory_total_bytes":8589934592)", more, "}"));
  }
  void evaluation(int64_t step, double mae, const std::string& split = "val") const {
    record(str(R"({"kind":"eval","time":)", 1000 + step, R"(,"step":)", step,
               R"(,"epoch":0,"split":")", split, R"(","metrics":{"loss":0.1,"mae":)", mae,
               R"(},"samples":400,"seconds":0.5})"));
  }
  void environment() const {
    write(
        "environment.json",
        R"({"versions":"dtrain 0.1.0","task":"headpose","network":"headpose_cnn","precision":"fp32","communicator":"mpi",
              "world_size":2,"data":"data/d.h5","parameters":1701667,"global_batch":32,"steps_per_epoch":100,
              "total_steps":400,"samples":{"train":3200,"val":400,"test":400},"metric":"mae",
              "metrics":[{"name":"loss","unit":"","higher_is_better":false},
                         {"name":"mae","unit":"degrees","higher_is_better":false}],
              "ranks":[{"node":"vm","device":"CPU","memory_bytes":8589934592,"cores":1,"threads":1,"loader_threads":1},
                       {"node":"vm","device":"CPU","memory_bytes":8589934592,"cores":1,"threads":1,"loader_threads":1}]})");
    write("config.yaml",
          "task:\n  name: headpose\ntrain:\n  epochs: 4  # passes\n  metric: \"\"\n");
  }
  // 400 steps with a record for every ten, an evaluation for every hundred, finished.
  void whole_run() const {
    environment();
    record(R"({"kind":"state","time":1000,"step":0,"state":"training"})");
    for (int64_t step = 10; step <= 400; step += 10) {
      this->step(step, 10.0 / static_cast<double>(step), 320 + static_cast<double>(step % 40));
      if (step % 100 == 0) evaluation(step, 10.0 - static_cast<double>(step) / 100);
    }
    evaluation(400, 6.5, "test");
    record(R"({"kind":"verdict","time":1401,"step":400,"text":"verdict: compute-bound 90 %"})");
    record(R"({"kind":"state","time":1401,"step":400,"state":"finished","exit_code":0,)"
           R"("reason":"all 400 steps are done"})");
  }

 private:
  TempDir folder_;
};

}  // namespace dtrain::testing
