// The commands with all of their flags.

#include <cstdio>

#include "cli/manual.h"
#include "cli/options.h"
#include "config/keys.h"
#include "core/error.h"
#include "job/version.h"
#include "text/strings.h"

namespace dtrain::cli {
namespace {

std::vector<ManualFlag> train_list() {
  std::vector<ManualFlag> flags = train_switches();
  config::Config defaults;
  for (const config::Option& option : config::describe(defaults)) {
    ManualFlag flag{.names = {"--" + option.path},
                    .kind = config::value_kind(option),
                    .text = option.text,
                    .section = option.section()};
    if (!option.alias.empty()) flag.names.insert(flag.names.begin(), "--" + option.alias);
    if (flag.kind.find(" | ") != std::string::npos) {
      for (const std::string& value : split(flag.kind, '|'))
        flag.values.emplace_back(trimmed(value));
    }
    if (*option.scope.text != '\0') flag.text += str(" (only for ", option.scope.text, ")");
    if (const std::string value = config::value_text(option); !value.empty())
      flag.text += str(" [", value, "]");
    flags.push_back(std::move(flag));
  }
  return flags;
}

}  // namespace

std::vector<ManualFlag> train_switches() {
  return {{.names = {"--print-config"},
           .text = "print the resolved configuration (reusable as input) and stop"},
          {.names = {"--dry-run"},
           .text = "go up to step 1 and stop; nothing is written but quick-start data"},
          {.names = {"--help"},
           .text = "print this and stop; --help all: every key of the configuration"}};
}

std::vector<ManualFlag> flags_of(const Command& command) {
  if (command.run == run_train) return train_list();
  try {
    command.run({kListFlags});
  } catch (const ListedFlags& listed) {
    return listed.flags;
  }
  return {};
}

std::vector<ManualCommand> command_list() {
  std::vector<ManualCommand> list;
  for (const Command& command : commands()) {
    list.push_back({command.name, command.usage, command.text, flags_of(command)});
  }
  return list;
}

int run_manual(const Arguments& arguments) {
  const std::string form = arguments.size() == 1 ? arguments[0] : "";
  if (form == "bash") {
    std::fputs(bash_completion(command_list()).c_str(), stdout);
  } else if (form == "zsh") {
    std::fputs(zsh_completion(command_list()).c_str(), stdout);
  } else if (form == "man") {
    std::fputs(man_page(command_list(), job::build_labels().at("version")).c_str(), stdout);
  } else {
    throw UsageError(
        "--manual needs one word: bash or zsh (completion for that shell), or man (the manual "
        "page)");
  }
  return 0;
}

}  // namespace dtrain::cli
