#include "dist/lone_process.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "text/strings.h"

namespace dtrain::dist {
namespace {

// Of Open MPI with its parts, of PMI, and of Slurm: without PMIx Open MPI ends a process that sees
// a list of nodes.
constexpr std::array<std::string_view, 7> kOfLaunchers = {"OMPI_", "PMIX_", "PMI_",  "PRTE_",
                                                          "ORTE_", "OPAL_", "SLURM_"};
constexpr std::string_view kVisible = "CUDA_VISIBLE_DEVICES=";

}  // namespace

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

}  // namespace dtrain::dist
