#include "job/run_paths.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/bounded_file.h"
#include "text/strings.h"

namespace dtrain::job {
namespace {

namespace fs = std::filesystem;

constexpr char kSeparator = '\0';  // which no path has
constexpr int64_t kLargestEnvironment = int64_t{1} << 20;

// The run folder without `runs_folder` and its own name: where a relative runs_folder started from.
fs::path origin_of(const fs::path& run, const fs::path& runs_folder) {
  if (runs_folder.is_absolute()) return {};
  const fs::path normal = (runs_folder / "NAME").lexically_normal();
  fs::path origin = run;
  for (const fs::path& part : normal) {
    if (part == "..") return {};  // not below the folder that the run was started in
    origin = origin.parent_path();
  }
  return origin;
}

// environment.json names the absolute paths under "absolute_paths".
std::string recorded(const nlohmann::json& environment, const char* key) {
  if (!environment.is_object()) return "";
  const auto paths = environment.find("absolute_paths");
  if (paths == environment.end() || !paths->is_object() || !paths->contains(key)) return "";
  const nlohmann::json& path = paths->at(key);
  return path.is_string() ? path.get<std::string>() : "";
}

}  // namespace

std::string to_text(const RunPaths& p) {
  return p.run + kSeparator + p.origin + kSeparator + p.data + kSeparator + p.module_file;
}

RunPaths run_paths_from(const std::string& text) {
  const std::vector<std::string> parts = split(text, kSeparator);
  return {parts.at(0), parts.at(1), parts.at(2), parts.at(3)};
}

RunPaths run_paths_of(const fs::path& checkpoint, const fs::path& runs_folder) {
  const fs::path full = fs::absolute(checkpoint).lexically_normal();
  const fs::path folder =
      full.has_filename() ? full.parent_path() : full.parent_path().parent_path();
  if (folder.filename() != "checkpoints") return {};
  const fs::path run = folder.parent_path();
  const report::FileText file = report::read_small(run / "environment.json", kLargestEnvironment);
  const auto environment = nlohmann::json::parse(file.text, nullptr, /*allow_exceptions=*/false);
  return {.run = run.string(),
          .origin = origin_of(run, runs_folder).string(),
          .data = recorded(environment, "data"),
          .module_file = recorded(environment, "module_file")};
}

std::vector<std::string> places_of(const std::string& file, const RunPaths& paths,
                                   const std::string& where_it_was) {
  std::vector<std::string> places;
  std::vector<fs::path> known;
  const auto add = [&](const fs::path& place) {
    const fs::path full = fs::absolute(place).lexically_normal();
    if (std::find(known.begin(), known.end(), full) != known.end()) return;
    known.push_back(full);
    places.push_back(place.string());
  };
  add(file);
  if (fs::path(file).is_relative()) {
    for (const std::string& folder : {paths.origin, paths.run}) {
      if (!folder.empty()) add((fs::path(folder) / file).lexically_normal());
    }
  }
  if (!where_it_was.empty()) add(where_it_was);
  return places;
}

}  // namespace dtrain::job
