// A Config as YAML, and the table as help and as docs/configuration.md.

#include <algorithm>
#include <functional>
#include <optional>
#include <sstream>

#include "config/config_builder.h"
#include "config/keys.h"
#include "config/print.h"
#include "core/hash.h"
#include "text/number_text.h"
#include "text/strings.h"
#include "text/wrap.h"

namespace dtrain::config {
namespace {

// Quotes text that YAML would read as something else. assign() allows no control characters, so
// nothing else needs escapes.
std::string yaml_scalar(const Option& option) {
  const std::string text = value_text(option);
  if (!is_text(option)) return text;
  const auto is_safe = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '/' || c == '.' || c == '-';
  };
  const bool starts_safe = !text.empty() && text[0] != '-' && text[0] != '.';
  if (starts_safe && std::all_of(text.begin(), text.end(), is_safe) &&
      nearest(text, std::vector<std::string>{"null"}) != "null") {
    return text;
  }
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string unit_and_range(const Option& option) {
  const std::string range = range_text(option);
  return option.unit + (option.unit.empty() || range.empty() ? "" : ", ") + range;
}

std::string default_text(const Option& option) {
  const std::string text = value_text(option);
  return text.empty() ? "''" : text;
}

std::string padded(std::string text, size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

// A cell of a Markdown table, which a bar would end.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

// In the help. Short names that are not here follow in the order of the table.
constexpr const char* kCommonFirst[] = {"dataset", "task",       "epochs", "batch-size", "lr",
                                        "amp",     "accumulate", "seed",   "workers",    "device",
                                        "threads", "name",       "resume", "init"};

std::string sentence(std::string text) {
  if (text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

// The keys that the run uses and that have a comment, which may be empty.
std::string yaml_of(const Config& config,
                    const std::function<std::optional<std::string>(const Option&)>& comment_of) {
  Config copy = config;
  std::ostringstream out;
  std::string section;
  for (const Option& option : describe(copy)) {
    const std::optional<std::string> comment =
        option.scope.holds(config) ? comment_of(option) : std::nullopt;
    if (!comment) continue;
    if (option.section() != section) {
      out << (section.empty() ? "" : "\n") << option.section() << ":\n";
      section = option.section();
    }
    const std::string line = str("  ", option.key(), ": ", yaml_scalar(option));
    out << (comment->empty() ? line : padded(line, 32) + "  # " + *comment) << "\n";
  }
  return out.str();
}

}  // namespace

std::string to_yaml(const Config& config) {
  return yaml_of(config, [](const Option& option) { return std::optional(option.text); });
}

std::string to_yaml(const Config& config, const std::vector<std::string>& keys,
                    const std::map<std::string, std::string, std::less<>>& comments) {
  return yaml_of(config, [&](const Option& option) -> std::optional<std::string> {
    if (std::ranges::find(keys, option.path) == keys.end()) return std::nullopt;
    const auto found = comments.find(option.path);
    return found == comments.end() ? "" : found->second;
  });
}

std::string hash(const Config& config) {
  Config copy = config;
  std::string text;
  for (const Option& option : describe(copy)) {
    if (option.section() != "run") text += str(option.path, "=", value_text(option), "\n");
  }
  return hex(xxh64(text));
}

std::string alias_help_text() {
  Config defaults;
  const std::vector<Option> table = describe(defaults);
  std::vector<const Option*> named;
  for (const char* alias : kCommonFirst) named.push_back(find_flag(table, alias));
  for (const Option& option : table) {
    const bool is_of_all_runs = *option.scope.text == '\0';
    const bool is_named = std::ranges::find(named, &option) != named.end();
    if (!option.alias.empty() && is_of_all_runs && !is_named) named.push_back(&option);
  }
  std::string out;
  for (const Option* option : named) {
    out +=
        help_entry("--" + option->alias, str(option->text, " [", default_text(*option), "]"), 18);
  }
  return out;
}

std::string help_text() {
  Config defaults;
  const std::vector<Option> table = describe(defaults);
  std::ostringstream out;
  out << "Every key is a flag (--section.key VALUE) and a line of the YAML config.\n"
         "In [ ]: default; unit and range.\n";
  for (const Section& section : sections()) {
    out << "\n" << wrap(str(section.name, ": ", section.text), kHelpWidth) << "\n";
    for (const Option& option : table) {
      if (option.section() != section.name) continue;
      const std::string flag =
          "--" + option.path + (option.alias.empty() ? "" : ", --" + option.alias);
      const std::string limits = unit_and_range(option);
      const std::string scope = option.scope.text;
      const std::string value =
          str(value_kind(option), " [", default_text(option), limits.empty() ? "" : "; ", limits,
              "]", scope.empty() ? "" : " only for " + scope,
              option.fixed ? str(scope.empty() ? "" : ";", " cannot change when a run is resumed")
                           : "");
      out << help_entry(flag, option.text, 36) << "      " << wrap(value, kHelpWidth - 6, 6)
          << "\n";
    }
  }
  return out.str();
}

std::string reference_markdown() {
  Config defaults;
  const std::vector<Option> table = describe(defaults);
  std::ostringstream out;
  out << R"(# Configuration reference

Generated from the table in `src/config/` (`*_keys.cpp`) by
`cmake --build build --target configuration_reference`; a test compares. Every key can be set in the
YAML config (`section:` and below it `  key: value`) and on the command line (`--section.key VALUE`
or `--section.key=VALUE`; `--section.key` alone means true). Later ones win: the defaults, the
embedded config that `--dataset NAME` names, the YAML file (`./dtrain.yaml` unless one is named),
the flags. Without a file and without data it is the embedded `configs/quickstart.yaml`, or that of
`--task NAME`. A batch size or accumulate of the file or the flags takes the place of an embedded
`train.global_batch`. `dtrain --print-config` prints the result. Paths are relative to the current
folder. Keys marked *fixed* cannot change when a run is resumed. A key with an entry in the column
*only for* does nothing for other runs: there it is an error, and it is not printed or saved.
)";
  for (const Section& section : sections()) {
    out << "\n## `" << section.name << "`\n\n"
        << sentence(section.text)
        << ".\n\n| key | value | default | unit, range | meaning | only for "
           "|\n|---|---|---|---|---|---|\n";
    for (const Option& option : table) {
      if (option.section() != section.name) continue;
      out << "| `" << option.path << "`"
          << (option.alias.empty() ? "" : " (`--" + option.alias + "`)")
          << (option.fixed ? " *fixed*" : "") << " | " << cell(value_kind(option)) << " | `"
          << default_text(option) << "` | " << unit_and_range(option) << " | " << cell(option.text)
          << " | " << cell(option.scope.text) << " |\n";
    }
  }
  return out.str();
}

}  // namespace dtrain::config
