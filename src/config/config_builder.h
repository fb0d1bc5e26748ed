#pragma once

// Builds a Config from layers, of which later ones win. It remembers where each value came from and
// collects the problems of all layers, so that people can fix them all at once.

#include <string>
#include <string_view>
#include <vector>

#include "config/keys.h"
#include "config/rules.h"

namespace dtrain::config {

class ConfigBuilder {
 public:
  // `saved`: a run saved the layer, which may have former units of intervals (former_units()).
  explicit ConfigBuilder(bool saved = false, const Config& defaults = {})
      : saved_(saved), config_(defaults), options_(describe(config_)) {}
  ConfigBuilder(const ConfigBuilder&) = delete;  // the options point into config_

  const Option* find(std::string_view path) const;  // nullptr: no such key
  bool is_section(std::string_view name) const;
  // The key that `section: VALUE` sets; nullptr: none
  const Option* namesake(std::string_view section) const;
  void set(const Option&, std::string_view text, const std::string& where);
  void add_problem(std::string where, std::string what) {
    problems_.push_back({std::move(where), std::move(what)});
  }
  void add_problems(std::vector<Problem>);

  const Config& config() const { return config_; }
  const Places& places() const { return places_; }
  std::string where(std::string_view path) const;  // "" while it has its default
  // "run.log_every 10s is 10steps"
  const std::vector<std::string>& former_units() const { return former_units_; }

  // Call after the last layer. Throws one ConfigError with all problems, in the order in which they
  // were found.
  const Config& finish() const;

 private:
  bool saved_;
  Config config_;
  std::vector<Option> options_;
  Places places_;
  std::vector<Problem> problems_;
  std::vector<std::string> former_units_;
};

// The option that a flag (without its dashes) names, by any of its names; nullptr: none.
const Option* find_flag(const std::vector<Option>&, std::string_view flag);

std::string underscored(std::string_view name);  // with '_' for '-', as in the keys

// The key that `name` is probably a misspelling of, with '-' as good as '_'; "" if none is near.
std::string nearest_key(std::string_view name, const std::vector<Option>&);

// Adds the keys of one YAML document. Problems are added to the builder, each with name:line:col;
// nothing in `text` makes this throw. Returns the paths of the keys that it set or tried to set,
// each once.
std::vector<std::string> apply_yaml(ConfigBuilder&, std::string_view text, const std::string& name);

}  // namespace dtrain::config
