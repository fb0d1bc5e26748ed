#include "config/flags.h"

#include "config/plain_text.h"
#include "config/synonyms.h"
#include "core/error.h"
#include "text/strings.h"

namespace dtrain::config {
namespace {

bool is_flag(const std::string& argument) {
  return argument.starts_with("--") && argument.size() > 2;
}
bool names_yaml(const std::string& argument) {
  return argument.ends_with(".yaml") || argument.ends_with(".yml");
}

std::string unknown_flag(const std::string& name, const std::vector<Option>& options,
                         const std::vector<std::string>& other_flags) {
  std::vector<std::string>
      whole;  // the keys with this ending: "patience" is train.patience and schedule.patience
  for (const Option& option : options) {
    if (option.path.ends_with("." + underscored(name)) || option.path == key_called(name))
      whole.push_back("'--" + (option.alias.empty() ? option.path : option.alias) + "'");
  }
  if (!whole.empty()) return "unknown flag; did you mean " + join(whole, " or ") + "?";
  if (const std::string_view advice = advice_about(name); !advice.empty())
    return str("unknown flag; ", advice);
  const std::string key = nearest_key(name, options);
  std::string near = key.empty() ? "" : "--" + key;
  for (const Option& option : options) {
    if (option.path == key && !option.alias.empty() && name.find('.') == std::string::npos)
      near = "--" + option.alias;
  }
  if (near.empty() && name.size() <= 64) {
    std::vector<std::string> flags = other_flags;
    for (const Option& option : options) {
      if (!option.alias.empty()) flags.push_back("--" + option.alias);
    }
    near = nearest("--" + name, flags);
  }
  return str("unknown flag; ",
             near.empty() ? "`dtrain --help all` lists all flags" : "did you mean '" + near + "'?");
}

class Splitter {
 public:
  Splitter(const std::vector<std::string>& arguments, const std::vector<Option>& options,
           const std::vector<std::string>& other_flags)
      : arguments_(arguments), options_(options), other_flags_(other_flags) {}

  CommandLine split() && {
    while (next_ < arguments_.size()) {
      const std::string& argument = arguments_[next_++];
      if (is_flag(argument)) {
        flag(argument);
      } else if (argument.starts_with('-')) {
        problem(argument,
                "unknown flag; flags begin with two dashes, `dtrain --help all` lists them");
      } else if (line_.config_file.empty() && !argument.empty()) {
        line_.config_file = argument;
      } else {
        throw UsageError(str("unexpected argument ", in_quotes(argument),
                             line_.config_file.empty() ? "" : " after the config file ",
                             line_.config_file,
                             ": one config file at most, everything else is --section.key VALUE"));
      }
    }
    return std::move(line_);
  }

 private:
  void flag(const std::string& argument) {
    const size_t equals = argument.find('=');
    const std::string spelling = argument.substr(0, equals);
    const Option* option = find_flag(options_, spelling.substr(2));
    std::string value;
    bool has_value = equals != std::string::npos;
    if (has_value) {
      value = argument.substr(equals + 1);
    } else if (next_ < arguments_.size() && takes(option, arguments_[next_])) {
      value = arguments_[next_++];
      has_value = true;
    }
    if (option == nullptr)
      return problem(spelling, unknown_flag(spelling.substr(2), options_, other_flags_));
    if (!has_value && !is_switch(*option))
      return problem(spelling, "a value is missing; expected: " + value_kind(*option));
    for (const Flag& earlier : line_.flags) {
      if (earlier.path != option->path) continue;
      return problem(spelling, earlier.spelling == spelling
                                   ? "given twice"
                                   : "given twice, first as " + earlier.spelling);
    }
    line_.flags.push_back({spelling, option->path, has_value ? value : "true"});
  }

  // Whether `argument` is the value of the flag before it. A config file is not, after a flag that
  // needs no value or that is unknown.
  static bool takes(const Option* option, const std::string& argument) {
    if (is_flag(argument)) return false;
    return option != nullptr && !is_switch(*option) ? true : !names_yaml(argument);
  }

  void problem(const std::string& where, const std::string& what) {
    line_.problems.push_back({where, what});
  }

  const std::vector<std::string>& arguments_;
  const std::vector<Option>& options_;
  const std::vector<std::string>& other_flags_;
  size_t next_ = 0;
  CommandLine line_;
};

}  // namespace

CommandLine split_command_line(const std::vector<std::string>& arguments,
                               const std::vector<Option>& options,
                               const std::vector<std::string>& other_flags) {
  return Splitter(arguments, options, other_flags).split();
}

}  // namespace dtrain::config
