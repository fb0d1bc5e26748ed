#include "config/config_builder.h"

#include <algorithm>
#include <iterator>

#include "config/synonyms.h"
#include "core/strings.h"

namespace dtrain::config {

const Option* ConfigBuilder::find(std::string_view path) const {
  const auto found = std::find_if(options_.begin(), options_.end(), [&](const Option& o) { return o.path == path; });
  return found == options_.end() ? nullptr : &*found;
}

bool ConfigBuilder::is_section(std::string_view name) const {
  return std::any_of(options_.begin(), options_.end(), [&](const Option& o) { return o.section() == name; });
}

const Option* ConfigBuilder::namesake(std::string_view section) const {
  const auto found = std::find_if(options_.begin(), options_.end(),
                                  [&](const Option& o) { return o.alias == section && o.section() == section; });
  return found == options_.end() ? nullptr : &*found;
}

void ConfigBuilder::set(const Option& option, std::string_view text, const std::string& where) {
  std::string wrong = assign(option, text);
  if (!wrong.empty() && saved_ && assign(option, text, IntervalUnits::kWordsAndLetters).empty()) {
    wrong.clear();
    former_units_.push_back(str(option.path, " ", text, " is ", value_text(option)));
  }
  if (wrong.empty()) {
    places_[option.path] = where;
  } else {
    add_problem(where, where == "--" + option.path ? wrong : option.path + ": " + wrong);
  }
}

void ConfigBuilder::add_problems(std::vector<Problem> problems) {
  std::ranges::move(problems, std::back_inserter(problems_));
}

std::string ConfigBuilder::where(std::string_view path) const {
  const auto found = places_.find(path);
  return found == places_.end() ? "" : found->second;
}

const Config& ConfigBuilder::finish() const {
  throw_problems(problems_);
  return config_;
}

const Option* find_flag(const std::vector<Option>& options, std::string_view flag) {
  const auto found = std::find_if(options.begin(), options.end(), [&](const Option& option) {
    return option.path == flag || (!option.alias.empty() && option.alias == flag);
  });
  return found == options.end() ? nullptr : &*found;
}

std::string nearest_key(std::string_view word, const std::vector<Option>& options) {
  if (word.size() > 64) return "";  // too long for a mistyped key
  const std::string_view last = word.substr(word.rfind('.') + 1);
  // The right name in the wrong section, or an alias: "train.lr", "lr".
  std::vector<std::string> same;
  for (const Option& option : options) {
    if (option.key() == last || option.alias == last) same.push_back(option.path);
  }
  if (same.size() == 1) return same[0];
  if (const std::string_view meant = key_called(last); same.empty() && !meant.empty()) return std::string(meant);
  std::vector<std::string> paths, keys;
  for (const Option& option : options) {
    paths.push_back(option.path);
    if (option.alias == option.section()) paths.push_back(option.alias);
    keys.push_back(option.key());
  }
  const std::string path = nearest(word, same.empty() ? paths : same);
  if (!path.empty() || word.find('.') != std::string_view::npos) return path;
  // A mistyped key without its section. Only if it can mean one key alone, and not for short words, which are near too
  // many keys.
  if (word.size() < 4) return "";
  const std::string key = nearest(word, keys);
  if (key.empty() || std::count(keys.begin(), keys.end(), key) != 1) return "";
  return paths[static_cast<size_t>(std::find(keys.begin(), keys.end(), key) - keys.begin())];
}

}  // namespace dtrain::config
