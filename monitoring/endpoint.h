#pragma once

// The HTTP endpoint that Prometheus scrapes, bound so that training never depends on it. civetweb gives one and the
// same exception for a port in use, an address of another machine and a bad specification, so the reasons are found
// here. Plain HTTP over IPv4 only: Debian's civetweb 1.15 crashes on the first HTTPS request and has no IPv6; TLS is a
// proxy's.

#include <memory>
#include <string>

namespace prometheus {
class Exposer;
}

namespace dtrain::monitoring {

class Endpoint {
 public:
  Endpoint() = default;
  Endpoint(std::unique_ptr<prometheus::Exposer>, std::string bind, int port);
  Endpoint(Endpoint&&) noexcept;
  Endpoint& operator=(Endpoint&&) noexcept;
  ~Endpoint();  // ends the server at once

  prometheus::Exposer* exposer() const {
    return exposer_.get();
  }  // null: nothing could be bound, and a warning said so
  int port() const { return port_; }

 private:
  std::unique_ptr<prometheus::Exposer> exposer_;
  std::string bind_;
  int port_ = 0;
};

// Binds bind:port, or any free port where port is 0, taken, or above 65535; `rank` is for the warning. Never throws.
Endpoint open_endpoint(const std::string& bind, int64_t port, int rank);

// Why `bind:port` cannot be bound: "" if it can, else e.g. "Address already in use". Port 0: any.
std::string why_not(const std::string& bind, int port);

}  // namespace dtrain::monitoring
