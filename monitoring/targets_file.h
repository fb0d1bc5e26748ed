#pragma once

// RUNS/targets/NAME.json: where the endpoints of a run are, in the form that Prometheus' file_sd reads. Rank 0 writes
// it at the start, and removes it at a clean end only, so that a listed target that does not answer means a crash.

#include <filesystem>
#include <string>
#include <vector>

namespace dtrain::monitoring {

class TargetsFile {
 public:
  struct Target {
    std::string address, node;  // a target without address is left out
    int rank = 0;
  };
  // Writes the file atomically. Throws OutputError if that fails.
  TargetsFile(const std::filesystem::path& runs_folder, const std::string& job_id, const std::vector<Target>&);
  // The destructor keeps the file. May be called more than once.
  void remove() noexcept;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace dtrain::monitoring
