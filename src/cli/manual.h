#pragma once

// Shell completion and the manual page, as text. They are made from the table of keys and from the
// flags of the other commands (command_list.h), so that they know the same names as the program;
// cmake --install writes them into the prefix. Pure.

#include <string>
#include <vector>

namespace dtrain::cli {

struct ManualFlag {
  std::vector<std::string> names;   // with their dashes, the short name first
  std::string kind;                 // type of the value, for people: "number"; "": a switch
  std::vector<std::string> values;  // if it is one of these
  std::string text;
  std::string section;  // section of the key; "" for flags that are not keys
};

struct ManualCommand {
  std::string name, usage, text;
  std::vector<ManualFlag> flags;
};

// The first command is the one that runs where none is named.
std::string bash_completion(const std::vector<ManualCommand>&);
std::string zsh_completion(const std::vector<ManualCommand>&);
// In section 1
std::string man_page(const std::vector<ManualCommand>&, const std::string& version);

}  // namespace dtrain::cli
