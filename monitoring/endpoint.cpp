#include "monitoring/endpoint.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <prometheus/exposer.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/log.h"
#include "core/strings.h"

// civetweb gives its threads 100 KiB of stack, which glibc takes thread-local storage from; LibTorch's CUDA libraries
// have more of that, so that no thread could be created ("Cannot create threads: error 0") and no page be served. This
// definition comes before glibc's for the whole process (CMakeLists.txt exports it) and raises what is too small.
extern "C" int pthread_attr_setstacksize(pthread_attr_t* attributes, size_t size) noexcept {
  using Function = int (*)(pthread_attr_t*, size_t);
  static const auto next = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "pthread_attr_setstacksize"));
  return next(attributes, std::max<size_t>(size, 1 << 20));
}

namespace dtrain::monitoring {
namespace {

constexpr std::chrono::milliseconds kKnock{5};

std::optional<in_addr> ipv4(const std::string& bind) {
  in_addr address{};
  if (::inet_pton(AF_INET, bind.c_str(), &address) != 1) return std::nullopt;
  return address;
}

Endpoint try_bind(const std::string& bind, int port) {
  try {
    // Two threads: one scrape, and one that a stuck scraper may hold.
    auto exposer = std::make_unique<prometheus::Exposer>(
        std::vector<std::string>{"listening_ports", str(bind, ":", port), "num_threads", "2"});
    const std::vector<int> ports = exposer->GetListeningPorts();
    if (ports.empty()) return {};
    return {std::move(exposer), bind, ports.front()};
  } catch (const std::exception&) {
    return {};  // the text is the same for every cause; why_not() finds the true one
  }
}

sockaddr_in socket_address(in_addr address, int port) {
  sockaddr_in target{};
  target.sin_family = AF_INET;
  target.sin_port = htons(static_cast<uint16_t>(port));
  target.sin_addr = address;
  return target;
}

// One connection, closed again: wakes a server that waits for one.
void knock(const sockaddr_in& target) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  static_cast<void>(::connect(fd, reinterpret_cast<const sockaddr*>(&target), sizeof target));
  ::close(fd);
}

}  // namespace

Endpoint::Endpoint(std::unique_ptr<prometheus::Exposer> exposer, std::string bind, int port)
    : exposer_(std::move(exposer)), bind_(std::move(bind)), port_(port) {}
Endpoint::Endpoint(Endpoint&&) noexcept = default;
Endpoint& Endpoint::operator=(Endpoint&&) noexcept = default;

Endpoint::~Endpoint() {
  if (!exposer_) return;
  // civetweb looks whether it shall stop only when someone connects, or every two seconds.
  const sockaddr_in target = socket_address(ipv4(bind_).value_or(in_addr{}), port_);
  const std::jthread knocker([target](const std::stop_token& stop) {
    for (; !stop.stop_requested(); std::this_thread::sleep_for(kKnock)) knock(target);
  });
  exposer_.reset();
}

std::string why_not(const std::string& bind, int port) {
  const std::optional<in_addr> address = ipv4(bind);
  if (!address) {
    return bind.find(':') != std::string::npos ? "IPv6 is not served" : "it is not an IPv4 address";
  }
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::strerror(errno);
  const int reuse = 1;  // as civetweb does: a port in TIME_WAIT is free
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  const sockaddr_in target = socket_address(*address, port);
  const bool bound = ::bind(fd, reinterpret_cast<const sockaddr*>(&target), sizeof target) == 0 && ::listen(fd, 1) == 0;
  const int code = errno;
  ::close(fd);
  return bound ? "" : std::strerror(code);
}

Endpoint open_endpoint(const std::string& bind, int64_t port, int rank) {
  const bool in_range = port >= 0 && port <= 65535;
  std::string reason = in_range ? why_not(bind, static_cast<int>(port)) : "there are 65535 ports";
  if (reason.empty()) {
    if (Endpoint endpoint = try_bind(bind, static_cast<int>(port)); endpoint.exposer()) return endpoint;
    reason = why_not(bind, static_cast<int>(port));
    if (reason.empty()) reason = "the HTTP server did not start";
  }
  const std::string what = str("metrics of rank ", rank, " cannot be served on ", bind, ":", port, " (", reason, ")");
  if (why_not(bind, 0).empty()) {
    if (Endpoint endpoint = try_bind(bind, 0); endpoint.exposer()) {
      log::warning(str(what, "; served on ", bind, ":", endpoint.port(),
                       " instead, as the targets file says. Choose another --metrics.port to have it fixed"));
      return endpoint;
    }
  }
  log::warning(str(what,
                   "; training goes on without them. Set --metrics.bind to an IPv4 address of this machine, "
                   "such as 127.0.0.1 or 0.0.0.0"));
  return {};
}

}  // namespace dtrain::monitoring
