#pragma once

// The name of this machine, and network addresses as text, such as "10.0.0.3" or "fd00::3". Two of
// them are compared as text, so an IPv4 address that an IPv6 socket has (::ffff:10.0.0.3) is
// written as the IPv4 address that it is. Thread-safety: any thread.

#include <set>
#include <string>

struct sockaddr;

namespace dtrain {

std::string host_name();  // "localhost" if the system does not say

std::string address_text(const sockaddr& address);  // IPv4 or IPv6; "" for another family

std::set<std::string> own_addresses();  // all network interfaces of this machine, with 127.0.0.1

}  // namespace dtrain
