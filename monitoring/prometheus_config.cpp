#include "monitoring/prometheus_config.h"

#include <algorithm>
#include <span>
#include <string>

#include "core/check.h"
#include "core/hash.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::monitoring {
namespace {

constexpr std::string_view kRules = "dtrain_rules.yml";

std::string shipped(std::string_view name) {
  const auto text = shipped_prometheus_file(name);
  DTRAIN_CHECK(text, "no shipped file ", name);
  return std::string(*text);
}

void replace_once(std::string& text, std::string_view from, std::string_view to) {
  const size_t place = text.find(from);
  DTRAIN_CHECK(place != std::string::npos, "monitoring/prometheus/prometheus.yml has no ", from);
  text.replace(place, from.size(), to);
}

// The shipped configuration with the paths of a folder of targets.
std::string config_text() {
  std::string text = shipped("prometheus");
  text.erase(0, text.find("global:"));  // its comment is about the source tree
  replace_once(text, "rules/*.yml", kRules);
  const size_t files = text.find("      # docker/compose.yaml");
  const size_t end = text.find("        refresh_interval");
  DTRAIN_CHECK(files != std::string::npos && end != std::string::npos,
               "monitoring/prometheus/prometheus.yml changed");
  text.replace(files, end - files, "      - files: ['*.json']\n");
  return "# Finds the runs whose targets files are in this folder, wherever Prometheus is started. "
         "Paths are relative to this file.\n" +
         text;
}

std::string first_line(std::string_view rest) {
  return str(
      "# Written by dtrain, which keeps this file once it has been changed (xxh64 of what "
      "follows: ",
      hex(xxh64(std::as_bytes(std::span(rest)))), ")\n");
}

void write_unless_changed(FileSystem& files, const std::filesystem::path& path,
                          const std::string& text) {
  const std::string wanted = first_line(text) + text;
  const std::filesystem::file_status status = std::filesystem::symlink_status(path);
  if (std::filesystem::exists(status)) {
    if (!std::filesystem::is_regular_file(status)) return;  // a link, say: the user's
    const std::string found = read_text(path);
    const std::string_view rest =
        std::string_view(found).substr(std::min(found.size(), found.find('\n') + 1));
    if (found == wanted || !found.starts_with(first_line(rest))) return;
  }
  write_atomically(files, path, wanted);
}

}  // namespace

void write_prometheus_config(FileSystem& files, const std::filesystem::path& targets_folder) {
  write_unless_changed(files, targets_folder / kRules, shipped("dtrain"));
  write_unless_changed(files, targets_folder / "prometheus.yml", config_text());
}

}  // namespace dtrain::monitoring
