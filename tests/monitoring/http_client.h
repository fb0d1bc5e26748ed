#pragma once

// A client of the metrics endpoint that can also misbehave. It knows nothing of the HTTP library of
// the server.

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>

namespace dtrain::monitoring::testing {

struct Reply {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

class HttpClient {
 public:
  // Connects to "127.0.0.1:9500" or "[::1]:9500".
  explicit HttpClient(const std::string& address) {
    const size_t colon = address.rfind(':');
    std::string host = address.substr(0, colon);
    if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* target = nullptr;
    if (::getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &target) != 0) {
      throw std::runtime_error("not an address: " + address);
    }
    fd_ = ::socket(target->ai_family, SOCK_STREAM, 0);
    const bool connected = ::connect(fd_, target->ai_addr, target->ai_addrlen) == 0;
    ::freeaddrinfo(target);
    if (!connected) {
      ::close(fd_);
      throw std::runtime_error("cannot connect to " + address);
    }
    const timeval patience{60, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~HttpClient() { ::close(fd_); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // False: the server has closed the connection.
  bool send(const std::string& text) {
    return ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }

  // `headers`: whole lines, each with its "\r\n".
  Reply get(const std::string& path, const std::string& headers = "",
            const std::string& method = "GET") {
    send(method + " " + path + " HTTP/1.1\r\nHost: test\r\n" + headers + "\r\n");
    return receive(/*with_body=*/method != "HEAD");
  }

  // Reads one reply; throws if the server closes the connection before its end.
  Reply receive(bool with_body = true) {
    size_t end = 0;
    while ((end = received_.find("\r\n\r\n")) == std::string::npos) read_more();
    const std::string head = received_.substr(0, end + 2);
    received_.erase(0, end + 4);
    Reply reply;
    std::smatch match;
    if (std::regex_search(head, match, std::regex(R"(^HTTP/1\.1 (\d+) )")))
      reply.status = std::stoi(match[1]);
    const std::regex line("\n([^:\r\n]+): *([^\r\n]*)");
    for (auto it = std::sregex_iterator(head.begin(), head.end(), line);
         it != std::sregex_iterator(); ++it) {
      std::string name = (*it)[1];
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      reply.headers[name] = (*it)[2];
    }
    if (!with_body) return reply;
    const size_t size = std::stoul(reply.headers.at("content-length"));
    while (received_.size() < size) read_more();
    reply.body = received_.substr(0, size);
    received_.erase(0, size);
    return reply;
  }

  // Waits until the server closes the connection; false if it sends more, or nothing for a minute.
  bool closed_by_server() {
    char byte = 0;
    return received_.empty() && ::recv(fd_, &byte, 1, 0) <= 0 && errno != EAGAIN;
  }

  // Closes the connection in a way that makes the server's next write fail.
  void reset() {
    const linger at_once{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    ::close(fd_);
    fd_ = -1;
  }

 private:
  void read_more() {
    char buffer[65536];
    const ssize_t count = ::recv(fd_, buffer, sizeof buffer, 0);
    if (count <= 0) throw std::runtime_error("the server closed the connection");
    received_.append(buffer, static_cast<size_t>(count));
  }

  int fd_ = -1;
  std::string received_;  // and not yet returned
};

// The body of GET http://ADDRESS/metrics.
inline std::string scrape(const std::string& address, const std::string& headers = "") {
  return HttpClient(address).get("/metrics", headers).body;
}

// The value of the one series of `name` whose labels hold all of `wanted` (`phase="forward"`); ""
// if there is none.
inline std::string value_of(const std::string& page, const std::string& name,
                            const std::string& wanted = "") {
  const std::regex line("(^|\n)" + name + "\\{([^\n]*)\\} ([^\n ]+)");
  for (auto it = std::sregex_iterator(page.begin(), page.end(), line); it != std::sregex_iterator();
       ++it) {
    if ((*it)[2].str().find(wanted) != std::string::npos) return (*it)[3].str();
  }
  return "";
}

}  // namespace dtrain::monitoring::testing
