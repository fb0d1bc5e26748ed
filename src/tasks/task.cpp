#include "tasks/task.h"

namespace dtrain::tasks {

#define DTRAIN_TASK(name, ...) \
  std::unique_ptr<Task> make_##name(const config::Config&, const DataFacts&);
#include "catalog/tasks.def"
#undef DTRAIN_TASK

void Task::enter(const TrainingPhase& phase) {
  if (phase.lr_ratio) {
    for (auto& item : model().named_parameters())
      item.value().set_requires_grad(phase.lr_ratio(item.key()) > 0);
  }
  entered(phase);
}

std::unique_ptr<Task> make_task(const config::Config& config, const DataFacts& facts) {
  using Make = std::unique_ptr<Task> (*)(const config::Config&, const DataFacts&);
  static constexpr Make kMakers[] = {
#define DTRAIN_TASK(name, ...) make_##name,
#include "catalog/tasks.def"
#undef DTRAIN_TASK
  };
  return kMakers[static_cast<size_t>(config.task)](config, facts);
}

}  // namespace dtrain::tasks
