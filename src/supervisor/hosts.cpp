#include "supervisor/hosts.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <set>

#include "core/error.h"
#include "os/net_address.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::supervisor {
namespace {

constexpr int kMostSlots = 1024;

// Of "slots=4".
int slots_in(const std::string& word, const std::string& where) {
  const auto slots = parse_number<int>(std::string_view(word).substr(word.find('=') + 1));
  if (!slots || *slots < 1 || *slots > kMostSlots) {
    throw UsageError(str(where, "'", word, "' is no number of ranks from 1 to ", kMostSlots));
  }
  return *slots;
}

// Letters, digits, '.', '_' and '-', and a user before '@': nothing that a remote shell takes for a
// flag or a command.
bool is_host_name(std::string_view word) {
  const size_t at = word.find('@');
  const auto part = [](std::string_view text) {
    return !text.empty() && text[0] != '-' && std::ranges::all_of(text, [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
    });
  };
  return at == std::string_view::npos ? part(word)
                                      : part(word.substr(0, at)) && part(word.substr(at + 1));
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses addresses_of(const std::string& name) {
  addrinfo* found = nullptr;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;  // each address once
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) found = nullptr;
  return {found, &::freeaddrinfo};
}

}  // namespace

std::vector<Host> parse_hosts(std::string_view text, const std::string& file_name) {
  std::vector<Host> hosts;
  int number = 0;
  for (const std::string& line : split(text, '\n')) {
    const std::string where = str("--hosts ", file_name, ":", ++number, ": ");
    const std::vector<std::string> parts = words(std::string_view(line).substr(0, line.find('#')));
    if (parts.empty()) continue;
    if (std::ranges::count(parts[0], ':') > 1) {
      throw UsageError(str(where, "'", parts[0],
                           "' is an IPv6 address, which mpirun does not take here: use a name"));
    }
    if (!is_host_name(parts[0])) {
      throw UsageError(str(where, "'", parts[0], "' is no host name: a line is NAME slots=N"));
    }
    int slots = 1;
    for (size_t i = 1; i < parts.size(); ++i) {
      if (!parts[i].starts_with("slots=")) {
        throw UsageError(str(where, "'", parts[i], "' is unknown here: a line is NAME slots=N"));
      }
      slots = slots_in(parts[i], where);
    }
    const auto known = std::ranges::find(hosts, parts[0], &Host::name);
    if (known == hosts.end()) {
      hosts.push_back({parts[0], slots});
    } else {
      known->slots += slots;
    }
  }
  if (hosts.empty()) throw UsageError(str("--hosts ", file_name, ": it names no host"));
  return hosts;
}

int slots_of(const std::vector<Host>& hosts) {
  int slots = 0;
  for (const Host& host : hosts) slots += host.slots;
  return slots;
}

std::vector<Host> used_hosts(const std::vector<Host>& hosts, int ranks) {
  std::vector<Host> used;
  for (const Host& host : hosts) {
    if (ranks <= 0) break;
    used.push_back(host);
    ranks -= host.slots;
  }
  return used;
}

std::string where_to_look(const std::string& host) {
  return str("look with `ssh ", host, "` and launch/ssh/check");
}

std::string host_list(const std::vector<Host>& hosts, int ranks) {
  std::vector<std::string> parts;
  for (const Host& host : used_hosts(hosts, ranks)) {
    parts.push_back(str(host.name, ":", std::min(host.slots, ranks)));
    ranks -= host.slots;
  }
  return join(parts, ",");
}

bool is_this_host(const std::string& user_and_name) {
  const std::string name = user_and_name.substr(user_and_name.rfind('@') + 1);  // npos + 1 is 0
  if (name == host_name() || name == "localhost") return true;
  const std::set<std::string> own = own_addresses();
  const Addresses addresses = addresses_of(name);
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    const std::string address = address_text(*one->ai_addr);
    if (own.contains(address) || address.starts_with("127.") || address == "::1") return true;
  }
  return false;
}

void put_this_host_first(std::vector<Host>& hosts) {
  const auto here =
      std::ranges::find_if(hosts, [](const Host& host) { return is_this_host(host.name); });
  if (here != hosts.end()) std::rotate(hosts.begin(), here, here + 1);
}

}  // namespace dtrain::supervisor
