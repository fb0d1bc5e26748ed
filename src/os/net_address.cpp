#include "os/net_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <climits>
#include <cstring>

namespace dtrain {

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, HOST_NAME_MAX) == 0 ? name : "localhost";
}

std::string address_text(const sockaddr& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof v4);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
  } else if (address.sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof v6);
    const bool v4 = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
    ::inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? &v6.sin6_addr.s6_addr[12] : v6.sin6_addr.s6_addr,
                text, sizeof text);
  }
  return text;
}

std::set<std::string> own_addresses() {
  std::set<std::string> all;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return all;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    if (const std::string text = address_text(*one->ifa_addr); !text.empty()) all.insert(text);
  }
  ::freeifaddrs(list);
  return all;
}

}  // namespace dtrain
