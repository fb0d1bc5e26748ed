#pragma once

// The command line of mpirun for one job of a launch. Pure.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "supervisor/hosts.h"

namespace dtrain::supervisor {

// How many ranks run where.
struct Placement {
  int ranks = 0;
  std::vector<Host> hosts;  // empty: mpirun's own choice
};

// `flags` are the user's own for mpirun; `program` is what each rank runs.
std::vector<std::string> mpirun_command(const Placement&, const std::vector<std::string>& flags,
                                        const std::vector<std::string>& program);

// The environment for mpirun: `ours`, with what env.sh sets unless it says otherwise (more ranks
// than cores, not bound to a core each; hosts that are gone are noticed), and with `folder` for
// temporary files.
std::vector<std::string> mpirun_environment(std::span<const std::string> ours,
                                            const std::string& folder);

// The words by which mpirun hands this variable of its environment to ranks on all hosts; none
// where it would refuse them, beside its own parameter for the same.
std::vector<std::string> handed_on(const std::string& name, const std::vector<std::string>& flags,
                                   std::span<const std::string> environment);

// The program by which mpirun starts its daemons on other hosts, as words to put a host and a
// command behind: of `--mca plm_rsh_agent` among `flags`, of OMPI_MCA_plm_rsh_agent in
// `environment`, or ssh, each with its plm_rsh_args.
std::vector<std::string> remote_shell(const std::vector<std::string>& flags,
                                      std::span<const std::string> environment);

// `arguments` of dtrain without the flags of these names ("--name"), in both spellings, "--name x"
// and "--name=x".
std::vector<std::string> without_flags(const std::vector<std::string>& arguments,
                                       std::span<const std::string> names);
// `arguments` of dtrain with this global batch, whatever they said of it.
std::vector<std::string> with_global_batch(const std::vector<std::string>& arguments,
                                           int64_t samples);

}  // namespace dtrain::supervisor
