#include "cli/manual.h"

#include <sstream>
#include <utility>

#include "text/strings.h"

namespace dtrain::cli {
namespace {

constexpr const char* kMade = "of dtrain, made by `dtrain --manual ";

std::string names_of(const std::vector<ManualCommand>& commands, const char* separator) {
  std::vector<std::string> names;
  for (const ManualCommand& command : commands) names.push_back(command.name);
  return join(names, separator);
}

// In single quotes for a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// A description in a specification of zsh's _arguments, where these characters have a meaning.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_flag(const ManualFlag& flag, const std::string& name) {
  std::string spec = name + (flag.kind.empty() ? "[" : "=[") + zsh_text(flag.text) + "]";
  if (!flag.kind.empty()) {
    spec += ":" + zsh_text(flag.kind) + ":";
    spec += flag.values.empty() ? (flag.kind == "text" ? "_files" : " ")
                                : "(" + join(flag.values, " ") + ")";
  }
  return quoted(spec);
}

// A text of troff: no character of it is a request or an escape.
std::string troff(const std::string& text) {
  std::string out;
  bool starts_line = true;
  for (const char c : text) {
    if (starts_line && (c == '.' || c == '\'')) out += "\\&";
    starts_line = c == '\n';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string bold(const std::string& text) { return "\\fB" + troff(text) + "\\fR"; }

void write_flags(std::ostream& out, const std::vector<ManualFlag>& flags) {
  std::string section;
  for (const ManualFlag& flag : flags) {
    if (flag.section != section) out << ".SS " << troff(flag.section) << "\n";
    section = flag.section;
    std::vector<std::string> names;
    for (const std::string& name : flag.names) names.push_back(bold(name));
    out << ".TP\n" << join(names, ", ");
    if (!flag.kind.empty()) out << " \\fI" << troff(flag.kind) << "\\fR";
    out << "\n" << troff(flag.text) << "\n";
  }
}

}  // namespace

std::string bash_completion(const std::vector<ManualCommand>& commands) {
  std::ostringstream out, values, flags;
  for (const ManualCommand& command : commands) {
    std::vector<std::string> all;
    for (const ManualFlag& flag : command.flags) {
      all.insert(all.end(), flag.names.begin(), flag.names.end());
      if (flag.values.empty()) continue;
      std::vector<std::string> cases;
      for (const std::string& name : flag.names) cases.push_back(command.name + ":" + name);
      values << "    " << join(cases, " | ") << ") words=" << quoted(join(flag.values, " "))
             << " ;;\n";
    }
    flags << "      " << command.name << ") words=" << quoted(join(all, " ")) << " ;;\n";
  }
  const std::string names = names_of(commands, " | ");
  out << "# Completion for bash " << kMade << "bash`.\n"
      << "_dtrain() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command="
      << commands.front().name
      << " words=\n"
         "  if [[ $word == '=' ]]; then\n"
         "    word=\n"  // --flag= and its value are three words
         "  elif [[ $before == '=' ]]; then\n"
         "    before=${COMP_WORDS[COMP_CWORD - 2]}\n"
         "  fi\n"
         "  case ${COMP_WORDS[1]} in\n    "
      << names
      << ") command=${COMP_WORDS[1]} ;;\n"
         "  esac\n"
         "  case $command:$before in\n"
      << values.str()
      << "  esac\n"
         "  if [[ -z $words && $word == -* ]]; then\n"
         "    case $command in\n"
      << flags.str()
      << "    esac\n"
         "  elif [[ -z $words && $COMP_CWORD == 1 ]]; then\n"
         "    words='"
      << names_of(commands, " ")
      << "'\n"
         "  fi\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
         "}\n"
         "complete -o bashdefault -o default -F _dtrain dtrain\n";  // files where nothing else fits
  return out.str();
}

std::string zsh_completion(const std::vector<ManualCommand>& commands) {
  std::ostringstream out;
  out << "#compdef dtrain\n# Completion for zsh " << kMade
      << "zsh`.\n"
         "_dtrain() {\n"
         "  local command="
      << commands.front().name << "\n  local -a commands\n  commands=(\n";
  for (const ManualCommand& command : commands) {
    out << "    " << quoted(command.name + ":" + zsh_text(command.text)) << "\n";
  }
  out << "  )\n  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n"
         "    _describe command commands\n"
         "    _files -g '*.(yaml|yml)'\n"
         "    return\n"
         "  fi\n"
         "  case $words[2] in\n    ("
      << names_of(commands, "|") << ") command=$words[2] ;;\n  esac\n  case $command in\n";
  for (const ManualCommand& command : commands) {
    out << "    (" << command.name << ")\n      _arguments \\\n";
    for (const ManualFlag& flag : command.flags) {
      for (const std::string& name : flag.names)
        out << "        " << zsh_flag(flag, name) << " \\\n";
    }
    out << "        '*:file:_files' ;;\n";
  }
  // As a function of the completion system the file is the body of _dtrain.
  return out.str() + "  esac\n}\n_dtrain \"$@\"\n";
}

std::string man_page(const std::vector<ManualCommand>& commands, const std::string& version) {
  std::ostringstream out;
  out << ".\\\" The manual page " << kMade << "man`.\n.TH DTRAIN 1 \"\" \"dtrain " << version
      << "\" \"User commands\"\n"
         ".nh\n.ad l\n"  // no hyphens in names, no wide spaces
         ".SH NAME\ndtrain \\- distributed training on GPUs and CPUs\n"
         ".SH SYNOPSIS\n[\\fBmpirun \\-np\\fR \\fIN\\fR] \\fBdtrain\\fR [\\fICOMMAND\\fR] "
         "[\\fICONFIG.yaml\\fR] [\\fB\\-\\-\\fIFLAG VALUE\\fR]...\n"
         ".SH DESCRIPTION\nTrains networks on one GPU, several, or a CPU, converts their data, "
         "evaluates and exports them. Without a command it trains. Without a config it reads "
         "\\fI./dtrain.yaml\\fR, and without that it trains the quick start, on data that it "
         "generates.\n"
         ".SH COMMANDS\n";
  for (const ManualCommand& command : commands) {
    out << ".TP\n"
        << bold(command.name) << " " << troff(command.usage) << "\n"
        << troff(command.text) << "\n";
  }
  for (const ManualCommand& command : commands) {
    out << ".SH FLAGS OF " << troff(command.name) << "\n";
    write_flags(out, command.flags);
  }
  out << ".SH FILES\n.TP\n\\fI./dtrain.yaml\\fR\nthe config, if none is named\n"
         ".TP\n\\fIruns/NAME/\\fR\na run: its config, log, metrics and checkpoints\n"
         ".SH EXIT STATUS\n";
  for (const auto& [code, text] : std::initializer_list<std::pair<int, const char*>>{
           {0, "success"},
           {1,
            "`doctor` found something that blocks, `bench comm` received wrong values, no batch of "
            "`bench step` fits into memory, a run of `plan` does not fit or makes no sense, or a "
            "gate of `report` failed. From mpirun: Ctrl-C ended the job"},
           {64, "unknown command or wrong use, or a limit of the system that is too low"},
           {65, "data is missing or damaged"},
           {69,
            "the requested device does not exist, has failed or is out of memory, or its driver is "
            "too old; or the host is out of memory, or `tune` finds no batch that fits"},
           {70, "an internal error"},
           {73,
            "the run folder or an output file cannot be written, is gone, or would replace an "
            "input or a file of another run; or another process trains this run; or the "
            "reader of a pipe is gone"},
           {74,
            "no valid checkpoint, none of that step, or no best one; or a checkpoint of another "
            "network"},
           {75, "stopped on request after saving, or before training began: run it again"},
           {76, "a rank died or hung, or the network failed"},
           {78, "configuration: unknown keys, wrong values"},
           {79, "the loss is not finite"},
           {130,
            "`convert`, `synth`, `predict` or `tune` was interrupted (Ctrl-C, SIGTERM); no partial "
            "file remains, and `convert` continues where it stopped. The other commands end by the "
            "signal itself"},
           {141,
            "the reader of a pipe is gone (SIGPIPE); `doctor`, `eval`, `ls`, `predict`, `report` "
            "and `tune` end with 73"}}) {
    out << ".TP\n" << code << "\n" << text << "\n";
  }
  return out.str();
}

}  // namespace dtrain::cli
