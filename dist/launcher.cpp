#include "dist/launcher.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::dist {
namespace {

// Of Open MPI with its parts, of PMI, and of Slurm: without PMIx Open MPI ends a process that sees
// a list of nodes.
constexpr std::array<std::string_view, 7> kOfLaunchers = {"OMPI_", "PMIX_", "PMI_",  "PRTE_",
                                                          "ORTE_", "OPAL_", "SLURM_"};
constexpr std::string_view kVisible = "CUDA_VISIBLE_DEVICES=";

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

std::vector<std::string> environment() {
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) all.emplace_back(*variable);
  return all;
}

std::vector<std::string> environment_of_lone_process(std::span<const std::string> ours, int gpu) {
  std::vector<std::string> lone;
  std::string visible = str(gpu);
  for (const std::string& variable : ours) {
    const bool of_launcher = std::ranges::any_of(
        kOfLaunchers, [&](std::string_view prefix) { return variable.starts_with(prefix); });
    if (of_launcher) continue;
    if (gpu >= 0 && variable.starts_with(kVisible)) {
      // The list gives the GPUs their numbers; its entries may also be UUIDs.
      const std::vector<std::string> listed = split(variable.substr(kVisible.size()), ',');
      if (static_cast<size_t>(gpu) < listed.size() &&
          !trimmed(listed[static_cast<size_t>(gpu)]).empty()) {
        visible = trimmed(listed[static_cast<size_t>(gpu)]);
      }
      continue;
    }
    lone.push_back(variable);
  }
  if (gpu >= 0) lone.push_back(str(kVisible, visible));
  return lone;
}

std::string library_variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace dtrain::dist
