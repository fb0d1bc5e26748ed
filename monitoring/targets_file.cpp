#include "monitoring/targets_file.h"

#include <nlohmann/json.hpp>
#include <system_error>

#include "os/file_system.h"

namespace dtrain::monitoring {

TargetsFile::TargetsFile(const std::filesystem::path& runs_folder, const std::string& job_id,
                         const std::vector<Target>& targets, const std::string& suffix)
    : path_(runs_folder / "targets" / (job_id + suffix + ".json")) {
  using Json = nlohmann::ordered_json;
  Json groups = Json::array();
  for (const Target& target : targets) {
    if (target.address.empty()) continue;
    Json labels = {{"job_id", job_id}, {"node", target.node}};
    if (target.rank) labels["rank"] = std::to_string(*target.rank);
    groups.push_back({{"targets", {target.address}}, {"labels", labels}});
  }
  real_file_system().create_folders(path_.parent_path());
  write_atomically(real_file_system(), path_,
                   groups.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void TargetsFile::remove() noexcept {
  // a target that stays is reported as down, which is no reason to fail a finished run
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace dtrain::monitoring
