#include "config/config_builder.h"

#include <algorithm>
#include <iterator>

#include "config/synonyms.h"
#include "text/strings.h"

namespace dtrain::config {

const Option* ConfigBuilder::find(std::string_view path) const {
  const auto found =
      std::ranges::find_if(options_, [&](const Option& o) { return o.path == path; });
  return found == options_.end() ? nullptr : &*found;
}

bool ConfigBuilder::is_section(std::string_view name) const {
  return std::ranges::any_of(options_, [&](const Option& o) { return o.section() == name; });
}

const Option* ConfigBuilder::namesake(std::string_view section) const {
  const auto found = std::ranges::find_if(
      options_, [&](const Option& o) { return o.alias == section && o.section() == section; });
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
    add_problem(where, option.path + ": " + wrong);
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
  const auto found = std::ranges::find_if(options, [&](const Option& option) {
    return option.path == flag || (!option.alias.empty() && option.alias == flag) ||
           (!option.also.empty() && option.also == flag);
  });
  return found == options.end() ? nullptr : &*found;
}

std::string underscored(std::string_view name) {
  std::string text(name);
  std::ranges::replace(text, '-', '_');
  return text;
}

std::string nearest_key(std::string_view name, const std::vector<Option>& options) {
  if (name.size() > 64) return "";  // too long for a mistyped key
  const std::string word = underscored(name);
  const std::string last = word.substr(word.rfind('.') + 1);
  const bool has_section = word.find('.') != std::string::npos;
  // The right name in the wrong section, or an alias: "train.lr", "lr".
  std::vector<std::string> same;
  for (const Option& option : options) {
    if (option.key() == last || underscored(option.alias) == last) same.push_back(option.path);
  }
  if (same.size() == 1) return same[0];
  if (!same.empty()) return nearest(word, same);
  if (const std::string_view meant = key_called(last); !meant.empty()) return std::string(meant);
  std::vector<std::string> spellings, paths;  // paths[i] is what spellings[i] means
  for (const Option& option : options) {
    spellings.push_back(option.path);
    paths.push_back(option.path);
    if (option.alias != option.section()) continue;
    spellings.push_back(option.alias);
    paths.push_back(option.alias);
  }
  // A mistyped key without its section. Only if it can mean one key alone, and not for short words,
  // which are near too many keys.
  for (const Option& option : options) {
    if (has_section || word.size() < 4) break;
    const auto namesakes =
        std::ranges::count_if(options, [&](const Option& o) { return o.key() == option.key(); });
    spellings.push_back(option.key());
    paths.push_back(namesakes == 1 ? option.path : "");
  }
  const std::string near = nearest(word, spellings);
  if (near.empty()) return "";
  return paths[static_cast<size_t>(std::ranges::find(spellings, near) - spellings.begin())];
}

}  // namespace dtrain::config
