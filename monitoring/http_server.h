#pragma once

// A small HTTP server of read-only pages inside the training process, on cpp-httplib. It is made so that no client can
// disturb the training: a few threads of its own, a deadline and a largest size for each request, and an end that waits
// for nobody. Plain HTTP/1.1 over IPv4 or IPv6, with keep-alive and gzip; for TLS put a proxy in front of it.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "monitoring/basic_auth.h"

namespace dtrain::monitoring {

// A page that GET and HEAD find at `path` ("/metrics"). `body` is called for each request, by several threads at the
// same time; if it throws, the client receives status 500.
struct Page {
  std::string path, content_type;
  std::function<std::string()> body;
};

// Thread-safety: the constructor and the destructor run in one thread; port() may be called from any thread.
class HttpServer {
 public:
  // Listens on `address`, a numeric IPv4 or IPv6 address ("0.0.0.0" and "::": all interfaces), and serves at once.
  // Port 0 takes any free port. With `auth` every request needs its user name and password. Throws
  // std::runtime_error, whose text is the reason alone ("Address already in use").
  HttpServer(const std::string& address, int port, std::vector<Page> pages, std::optional<BasicAuth> auth);
  // Closes all connections, also those in the middle of a request, and joins the threads.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;  // the one that it listens on

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::monitoring
