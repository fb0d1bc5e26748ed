#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <regex>
#include <stdexcept>
#include <string>

namespace dtrain::monitoring::testing {

// The body of GET http://ADDRESS/metrics ("127.0.0.1:9500"), read until the server closes.
inline std::string scrape(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in target{};
  target.sin_family = AF_INET;
  target.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
  if (::inet_pton(AF_INET, address.substr(0, colon).c_str(), &target.sin_addr) != 1) throw std::runtime_error(address);
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  std::string reply;
  if (::connect(fd, reinterpret_cast<sockaddr*>(&target), sizeof target) == 0) {
    const std::string request = "GET /metrics HTTP/1.0\r\nHost: test\r\nConnection: close\r\n\r\n";
    if (::write(fd, request.data(), request.size()) > 0) {
      char buffer[4096];
      for (ssize_t n = 0; (n = ::read(fd, buffer, sizeof buffer)) > 0;) reply.append(buffer, static_cast<size_t>(n));
    }
  }
  ::close(fd);
  const size_t body = reply.find("\r\n\r\n");
  if (body == std::string::npos) throw std::runtime_error("no reply from " + address);
  return reply.substr(body + 4);
}

// The value of the one series of `name` whose labels hold all of `wanted` (`phase="forward"`); "" if there is none.
inline std::string value_of(const std::string& page, const std::string& name, const std::string& wanted = "") {
  const std::regex line("(^|\n)" + name + "\\{([^\n]*)\\} ([^\n ]+)");
  for (auto it = std::sregex_iterator(page.begin(), page.end(), line); it != std::sregex_iterator(); ++it) {
    if ((*it)[2].str().find(wanted) != std::string::npos) return (*it)[3].str();
  }
  return "";
}

}  // namespace dtrain::monitoring::testing
