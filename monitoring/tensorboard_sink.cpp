#include "monitoring/tensorboard_sink.h"

#include <unistd.h>

#include <cmath>
#include <utility>

#include "core/clock.h"
#include "monitoring/append_file.h"
#include "monitoring/tfevents.h"
#include "os/net_address.h"
#include "text/strings.h"

namespace dtrain::monitoring {
namespace {

// events.out.tfevents.TIME.HOST.PID: TensorBoard reads the files of a folder in the order of
// their names.
std::string file_name() {
  return str("events.out.tfevents.", static_cast<int64_t>(unix_seconds()), ".", host_name(), ".",
             ::getpid());
}

class TensorBoard : public Sink {
 public:
  explicit TensorBoard(const std::filesystem::path& run_folder) : file_(run_folder / file_name()) {
    file_.append(tfevents::frame(tfevents::version_event(unix_seconds())));
  }

  void record(const StepStats& s) override {
    start(s.step);
    if (!s.logging) return;
    add("loss/train", s.loss);
    add("lr", s.learning_rate);
    add_known("grad_norm", s.grad_norm);
    add_known("loss_scale", s.values[measure::Quantity::kLossScale]);
    add_known("samples_per_second", s.samples_per_second);
    for (size_t i = 0; i < measure::kPhases; ++i)
      add(str("phase/", measure::kPhaseNames[i]), s.phase_seconds[i]);
    add("memory_used_gib", s.values[measure::Quantity::kMemory] / (1024.0 * 1024.0 * 1024.0));
    write(s.step);
  }

  void record(const EvalStats& e) override {
    start(e.step);
    for (const auto& [name, value] : e.metrics) {
      add(name == "loss" ? "loss/" + e.split : str("eval/", e.split, "/", name), value);
    }
    write(e.step);
  }

 private:
  void start(int64_t step) {
    if (std::exchange(started_, true)) return;
    file_.append(tfevents::frame(tfevents::start_event(unix_seconds(), step)));
  }
  void add(std::string tag, double value) {
    scalars_.emplace_back(std::move(tag), static_cast<float>(value));
  }
  void add_known(const char* tag, double value) {
    if (!std::isnan(value)) add(tag, value);
  }
  void write(int64_t step) {
    file_.append(tfevents::frame(tfevents::scalars_event(unix_seconds(), step, scalars_)));
    scalars_.clear();
  }

  AppendFile file_;
  std::vector<std::pair<std::string, float>> scalars_;
  bool started_ = false;
};

}  // namespace

std::unique_ptr<Sink> make_tensorboard_sink(const std::filesystem::path& run_folder) {
  return std::make_unique<TensorBoard>(run_folder);
}

}  // namespace dtrain::monitoring
