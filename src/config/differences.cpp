#include "config/differences.h"

#include <algorithm>
#include <array>

#include "config/keys.h"
#include "core/check.h"
#include "text/strings.h"

namespace dtrain::config {
namespace {

struct Change {
  std::string path, before, after;
  bool fixed;
};

std::vector<Change> changes(Config saved, Config now) {
  const std::vector<Option> before = describe(saved), after = describe(now);
  std::vector<Change> found;
  for (size_t i = 0; i < before.size(); ++i) {
    // Equal texts are equal values, because a text restores every bit of its value.
    const std::string old_text = value_text(before[i]), new_text = value_text(after[i]);
    if (old_text != new_text)
      found.push_back({before[i].path, old_text, new_text, before[i].fixed});
  }
  return found;
}

std::string shown(const std::string& text) { return text.empty() ? "''" : text; }

// A global batch of 0 is not another value: it means that of the checkpoint.
bool is_left_open(const Change& change) {
  return change.path == "train.global_batch" && change.after == "0";
}

}  // namespace

std::vector<std::string> fixed_differences(const Config& saved, const Config& now) {
  std::vector<std::string> names;
  for (const Change& change : changes(saved, now)) {
    if (change.fixed && !is_left_open(change)) names.push_back(change.path);
  }
  return names;
}

std::vector<std::string> differences(const Config& saved, const Config& now) {
  std::vector<std::string> lines;
  for (const Change& change : changes(saved, now)) {
    if (change.fixed || change.path == "run.resume") continue;  // the run is being resumed
    lines.push_back(str(change.path, ": ", shown(change.before), " -> ", shown(change.after)));
  }
  return lines;
}

void set(Config& config, std::string_view path, std::string_view text) {
  for (const Option& option : describe(config)) {
    if (option.path != path) continue;
    const std::string wrong = assign(option, text);
    if (!wrong.empty()) throw ConfigError(str(path, ": ", wrong));
    return;
  }
  DTRAIN_CHECK(false, "key ", path);
}

std::string keys_in_common(const Config& config) {
  static constexpr std::array kOwn = {"data.file", "data.workers", "data.prefetch",
                                      "device.threads"};
  // All ranks meet at a step line and in the probe of run.diagnose.
  static constexpr std::array kTogether = {"run.log_every", "run.diagnose"};
  const auto is_in = [](const auto& paths, const std::string& path) {
    return std::ranges::find(paths, path) != paths.end();
  };
  Config copy = config;
  std::string text;
  for (const Option& option : describe(copy)) {
    const std::string section = option.section();
    if (section == "metrics" || (section == "run" && !is_in(kTogether, option.path))) continue;
    if (is_in(kOwn, option.path)) continue;
    text += str(option.path, "=", value_text(option), "\n");
  }
  return text;
}

void copy_keys(const Config& from, Config& to, const std::vector<std::string>& paths) {
  Config source = from;
  const std::vector<Option> sources = describe(source), targets = describe(to);
  for (size_t i = 0; i < targets.size(); ++i) {
    for (const std::string& path : paths) {
      if (targets[i].path == path) assign(targets[i], value_text(sources[i]));
    }
  }
}

}  // namespace dtrain::config
