#include "supervisor/mpirun_command.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "text/strings.h"

namespace dtrain::supervisor {
namespace {

// As env.sh sets them: more ranks than cores, not bound to a core each, and a host that is gone is
// noticed within 30 s.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kSettings = {{
    {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
    {"OMPI_MCA_hwloc_base_binding_policy", "none"},
    {"OMPI_MCA_oob_tcp_keepalive_time", "10"},
    {"OMPI_MCA_oob_tcp_keepalive_intvl", "5"},
    {"OMPI_MCA_oob_tcp_keepalive_probes", "4"},
}};

bool sets(std::span<const std::string> environment, std::string_view name) {
  return std::ranges::any_of(environment, [&](const std::string& variable) {
    return variable.size() > name.size() && variable.starts_with(name) &&
           variable[name.size()] == '=';
  });
}

// The value of an MCA parameter: flags win over the environment.
std::optional<std::string> mca_parameter(const std::string& name,
                                         const std::vector<std::string>& flags,
                                         std::span<const std::string> environment) {
  for (size_t i = 0; i + 2 < flags.size(); ++i) {
    const bool is_mca = flags[i] == "--mca" || flags[i] == "-mca" || flags[i] == "--gmca";
    if (is_mca && flags[i + 1] == name) return flags[i + 2];
  }
  const std::string prefix = str("OMPI_MCA_", name, "=");
  for (const std::string& variable : environment) {
    if (variable.starts_with(prefix)) return variable.substr(prefix.size());
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> mpirun_command(const Placement& place,
                                        const std::vector<std::string>& flags,
                                        const std::vector<std::string>& program) {
  // The kernel ends mpirun, and with it the job, where the supervisor is killed.
  std::vector<std::string> command = {"setpriv",      "--pdeathsig", "TERM",          "mpirun",
                                      "--tag-output", "-np",         str(place.ranks)};
  if (!place.hosts.empty())
    command.insert(command.end(), {"--host", host_list(place.hosts, place.ranks)});
  command.insert(command.end(), flags.begin(), flags.end());
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

std::vector<std::string> mpirun_environment(std::span<const std::string> ours,
                                            const std::string& folder) {
  std::vector<std::string> environment;
  for (const std::string& variable : ours) {
    if (!variable.starts_with("TMPDIR=")) environment.push_back(variable);
  }
  environment.push_back(str("TMPDIR=", folder));
  for (const auto& [name, value] : kSettings) {
    if (!sets(ours, name)) environment.push_back(str(name, "=", value));
  }
  return environment;
}

std::vector<std::string> handed_on(const std::string& name, const std::vector<std::string>& flags,
                                   std::span<const std::string> environment) {
  if (mca_parameter("mca_base_env_list", flags, environment)) return {};
  return {"-x", name};
}

std::vector<std::string> remote_shell(const std::vector<std::string>& flags,
                                      std::span<const std::string> environment) {
  // Of a list such as "ssh : rsh" mpirun takes the first that is there.
  const std::string agent = mca_parameter("plm_rsh_agent", flags, environment).value_or("");
  std::vector<std::string> shell = words(std::string_view(agent).substr(0, agent.find(" :")));
  // Never a question for a password, which would not be answered.
  if (shell.empty()) shell = {"ssh", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"};
  for (const std::string& word :
       words(mca_parameter("plm_rsh_args", flags, environment).value_or(""))) {
    shell.push_back(word);
  }
  return shell;
}

std::vector<std::string> without_flags(const std::vector<std::string>& arguments,
                                       std::span<const std::string> names) {
  std::vector<std::string> rest;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string name = arguments[i].substr(0, arguments[i].find('='));
    if (std::ranges::find(names, name) == names.end()) {
      rest.push_back(arguments[i]);
    } else if (name.size() == arguments[i].size()) {
      ++i;  // its value
    }
  }
  return rest;
}

std::vector<std::string> with_global_batch(const std::vector<std::string>& arguments,
                                           int64_t samples) {
  const std::array<std::string, 3> names = {"--accumulate", "--train.accumulate",
                                            "--train.global_batch"};
  std::vector<std::string> all = without_flags(arguments, names);
  all.insert(all.end(), {"--train.accumulate", "0", "--train.global_batch", str(samples)});
  return all;
}

}  // namespace dtrain::supervisor
