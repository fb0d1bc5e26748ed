#include "core/error.h"
#include "core/strings.h"
#include "tasks/task.h"

namespace dtrain::tasks {

#define DTRAIN_TASK(name) std::unique_ptr<Task> make_##name(const config::Config&, const DataFacts&);
#include "tasks/tasks.def"
#undef DTRAIN_TASK

namespace {

struct Entry {
  const char* name;
  std::unique_ptr<Task> (*make)(const config::Config&, const DataFacts&);
};

constexpr Entry kTasks[] = {
#define DTRAIN_TASK(name) {#name, make_##name},
#include "tasks/tasks.def"
#undef DTRAIN_TASK
};

}  // namespace

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kTasks) names.emplace_back(entry.name);
  return names;
}

std::unique_ptr<Task> make_task(const config::Config& config, const DataFacts& facts) {
  for (const Entry& entry : kTasks) {
    if (config.task == entry.name) return entry.make(config, facts);
  }
  throw ConfigError(str("task: unknown '", config.task, "'; known: ", join(task_names(), ", ")));
}

}  // namespace dtrain::tasks
