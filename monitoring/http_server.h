#pragma once

// A small HTTP server of read-only pages inside the training process. It is made so that no client
// can disturb the training or another client: one thread that never waits for a single client, a
// deadline and a largest size for each request, a largest number of connections, and an end that
// waits for no client. Beyond that number idle connections are closed, and new clients wait in the
// kernel until a place is free: a request is answered late rather than not at all. Plain HTTP/1.1
// over IPv4 or IPv6, with keep-alive and gzip; for TLS put a proxy in front of it.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "monitoring/basic_auth.h"
#include "monitoring/http_pages.h"

namespace dtrain::monitoring {

// Thread-safety: the constructor and the destructor run in one thread; port() may be called from
// any thread.
class HttpServer {
 public:
  // Listens on `address`, a numeric IPv4 or IPv6 address ("0.0.0.0" and "::": all interfaces), and
  // serves at once. Port 0 takes any free port. With `auth` every request needs its user name and
  // password. Throws std::runtime_error, whose text is the reason alone ("Address already in use").
  HttpServer(const std::string& address, int port, std::vector<Page> pages,
             std::optional<BasicAuth> auth);
  // Closes all connections, also those in the middle of a request, and joins the threads.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;  // the one that it listens on

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Why an HttpServer could not listen there now ("Address already in use"); "" if it could.
std::string why_not_served(const std::string& address, int port);

}  // namespace dtrain::monitoring
