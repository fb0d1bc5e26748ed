#pragma once

// RUNS/targets/NAME.json: where the endpoints of a run are, in the form that Prometheus' file_sd
// reads. Rank 0 writes it at the start, and removes it at a clean end only, so that a listed target
// that does not answer means a crash. The supervisor does the same for its own endpoint,
// in RUNS/targets/NAME.launch.json.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::monitoring {

class TargetsFile {
 public:
  struct Target {
    std::string address, node;     // a target without address is left out
    std::optional<int> rank = {};  // none: it is not a rank's
  };
  // Writes the file atomically; its name is that of the job, with `suffix`. Throws OutputError if
  // that fails.
  TargetsFile(const std::filesystem::path& runs_folder, const std::string& job_id,
              const std::vector<Target>&, const std::string& suffix = "");
  // The destructor keeps the file. May be called more than once.
  void remove() noexcept;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace dtrain::monitoring
