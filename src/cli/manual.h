#pragma once

// The commands with all of their flags, as data, and what is made of it: shell completion and the
// manual page, which know the same names as the program. cmake --install writes both.

#include <string>
#include <vector>

#include "cli/commands.h"

namespace dtrain::cli {

struct ManualFlag {
  std::vector<std::string> names = {};   // with their dashes, the short name first
  std::string kind = {};                 // type of the value, for people: "number"; "": a switch
  std::vector<std::string> values = {};  // if it is one of these
  std::string text = {};
  std::string section = {};  // section of the key; "" for flags that are not keys
};

struct ManualCommand {
  std::string name, usage, text;
  std::vector<ManualFlag> flags;
};

std::vector<ManualFlag> train_switches();  // flags of train besides the configuration keys

// `train` has the keys of the configuration; the flags of the others are those that they pass to
// parse() (options.h).
std::vector<ManualFlag> flags_of(const Command&);
std::vector<ManualCommand> command_list();

// `dtrain --manual bash|zsh|man`: prints the completion or the page. UsageError.
int run_manual(const Arguments& arguments);

// Pure. The first command is the one that runs where none is named.
std::string bash_completion(const std::vector<ManualCommand>&);
std::string zsh_completion(const std::vector<ManualCommand>&);
// A page of section 1
std::string man_page(const std::vector<ManualCommand>&, const std::string& version);

}  // namespace dtrain::cli
