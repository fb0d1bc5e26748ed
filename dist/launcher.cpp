#include "dist/launcher.h"

#include <cstdlib>

#include "text/number_text.h"

namespace dtrain::dist {
namespace {

bool under_srun() { return is_set("SLURM_STEP_ID") && !under_mpirun(); }

}  // namespace

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

int launcher_number(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text ? parse_number<int>(text).value_or(fallback) : fallback;
}

bool under_mpirun() { return is_set("OMPI_COMM_WORLD_RANK"); }

int tasks_of_step() {
  return under_srun() ? launcher_number("SLURM_STEP_NUM_TASKS", launcher_number("SLURM_NTASKS", 1))
                      : 1;
}

int launcher_rank_hint() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"}) {
    if (is_set(name)) return launcher_number(name, 0);
  }
  return under_srun() ? launcher_number("SLURM_PROCID", 0) : 0;
}

int launcher_local_rank_hint() {
  if (under_mpirun()) return launcher_number("OMPI_COMM_WORLD_LOCAL_RANK", 0);
  return under_srun() ? launcher_number("SLURM_LOCALID", 0) : launcher_rank_hint();
}

int launcher_size_hint() {
  return under_mpirun() ? launcher_number("OMPI_COMM_WORLD_SIZE", 1) : tasks_of_step();
}

bool has_supervisor() { return is_set(kSupervised); }

std::string library_variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace dtrain::dist
