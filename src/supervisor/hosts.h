#pragma once

// The hosts of a job, and how many ranks each has room for. Pure, but for is_this_host().

#include <string>
#include <string_view>
#include <vector>

namespace dtrain::supervisor {

struct Host {
  std::string name;
  int slots = 1;
  bool operator==(const Host&) const = default;
};

// A host file of Open MPI: a line "NAME [slots=N]" for each host, "#" begins a comment; the slots
// of a name that comes again are added. UsageError that names the line.
std::vector<Host> parse_hosts(std::string_view text, const std::string& file_name);

int slots_of(const std::vector<Host>&);
// Those of `hosts` that get ranks when `ranks` are placed in their order; the last one may have
// slots left.
std::vector<Host> used_hosts(const std::vector<Host>& hosts, int ranks);
// "a:2,b:4": those of `hosts` that get ranks when `ranks` are placed in their order.
std::string host_list(const std::vector<Host>& hosts, int ranks);

// What a person does about a host that is lost: "look with `ssh a` and launch/ssh/check".
std::string where_to_look(const std::string& host);

// Whether NAME or USER@NAME is the machine that this process runs on: by its name, or because one
// of its addresses is the name's.
bool is_this_host(const std::string& user_and_name);
// This machine goes first: mpirun places rank 0, which writes the run folder, where the supervisor
// can read it.
void put_this_host_first(std::vector<Host>& hosts);

}  // namespace dtrain::supervisor
