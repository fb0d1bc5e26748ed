#include "monitoring/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <list>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/log.h"
#include "monitoring/http_connection.h"
#include "monitoring/http_pages.h"
#include "os/file_descriptor.h"
#include "os/process_info.h"
#include "text/strings.h"

namespace dtrain::monitoring {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBacklog = 1024;        // clients that wait in the kernel for a place
constexpr size_t kConnections = 256;  // at most; a process with few file descriptors keeps fewer
constexpr std::chrono::milliseconds kNoDescriptor{
    100};  // before accept() is tried again in a process that has none

std::runtime_error system_problem() { return std::runtime_error(std::strerror(errno)); }

// A socket that listens on a numeric address. Without SO_REUSEPORT, with which two runs would share
// a port unnoticed.
FileDescriptor listening_socket(const std::string& address, int port) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  const bool is_v6 = ::inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr) == 1;
  if (!is_v6 && ::inet_pton(AF_INET, address.c_str(), &v4.sin_addr) != 1) {
    throw std::runtime_error("it is not an IP address");
  }
  v6.sin6_family = AF_INET6;
  v4.sin_family = AF_INET;
  v6.sin6_port = v4.sin_port = htons(static_cast<uint16_t>(port));
  FileDescriptor fd(
      ::socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) throw system_problem();
  const int on = 1, off = 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // a port in TIME_WAIT is free
  // Connections inherit it. The last piece of a large response would otherwise wait for the
  // client's delayed ACK.
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (is_v6)
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);  // "::" means IPv4 too
  const auto* target =
      is_v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
  if (::bind(fd.get(), target, is_v6 ? sizeof v6 : sizeof v4) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    throw system_problem();
  }
  return fd;
}

int port_of(int fd) {
  sockaddr_in6 name{};  // the port of an IPv4 name is at the same place
  static_assert(offsetof(sockaddr_in6, sin6_port) == offsetof(sockaddr_in, sin_port));
  socklen_t size = sizeof name;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) == 0 ? ntohs(name.sin6_port)
                                                                           : 0;
}

// A quarter of the process's file descriptors at most: a checkpoint needs some too.
size_t most_connections() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kConnections;
  return std::clamp<size_t>(limit.rlim_cur / 4, 1, kConnections);
}

}  // namespace

std::string why_not_served(const std::string& address, int port) {
  try {
    listening_socket(address, port);
    return "";
  } catch (const std::exception& problem) {
    return problem.what();
  }
}

class HttpServer::Impl {
 public:
  Impl(const std::string& address, int port, std::vector<Page> pages, std::optional<BasicAuth> auth)
      : pages_(std::move(pages), std::move(auth)),
        listener_(listening_socket(address, port)),
        port_(port_of(listener_.get())),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_.is_open()) throw system_problem();
    thread_ = std::jthread([this](const std::stop_token& stop) {
      name_this_thread(kServiceThread);
      run(stop);
    });
  }

  ~Impl() {
    thread_.request_stop();
    const uint64_t one = 1;
    // The counter of an eventfd that no other thread writes to is never full.
    static_cast<void>(wake_.write_all(std::as_bytes(std::span(&one, 1))));
  }

  int port() const { return port_; }

 private:
  struct Client {
    HttpConnection connection;
    bool ready = false;  // poll() found something to read, or room to write
  };

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      try {
        places_ = most_connections();
        wait();
        full_ = clients_.size() >= places_;
        clients_.remove_if([this](Client& client) { return !serve(client); });
        // After serving, which frees places.
        accept_clients();
      } catch (
          const std::exception& e) {  // out of memory, most likely: these clients receive nothing
        clients_.clear();
        log::warning(str("the HTTP server on port ", port_, " closed its connections: ", e.what()));
      }
    }
  }

  // Until something can be done: a client's bytes, room for a response, a deadline, or the end.
  void wait() {
    const bool later = Clock::now() < accept_again_;
    polled_.assign(
        {{wake_.get(), POLLIN, 0}, {later || !has_place() ? -1 : listener_.get(), POLLIN, 0}});
    auto first = later ? accept_again_ : Clock::time_point::max();
    for (const Client& client : clients_) {
      polled_.push_back({client.connection.socket(), client.connection.events(), 0});
      first = std::min(first, client.connection.deadline());
    }
    int patience = -1;
    if (first != Clock::time_point::max()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - Clock::now()).count();
      patience = static_cast<int>(std::max<int64_t>(left, 0));
    }
    if (::poll(polled_.data(), polled_.size(), patience) < 0) {
      for (pollfd& polled : polled_) polled.revents = 0;
    }
    polled_at_ = Clock::now();
    auto polled = polled_.begin() + 2;
    for (Client& client : clients_) client.ready = (polled++)->revents != 0;
  }

  void accept_clients() {
    if (polled_[1].revents == 0) return;
    for (size_t left = places_; left > 0 && has_place(); --left) {
      FileDescriptor socket(
          ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.is_open()) {
        // Without a free descriptor the listener stays readable: asking again at once would use a
        // whole core.
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
          accept_again_ = Clock::now() + kNoDescriptor;
        return;
      }
      if (clients_.size() >= places_) clients_.erase(longest_idle());
      clients_.push_back({HttpConnection(std::move(socket)), false});
    }
  }

  // For a new client. Without one the listener is not polled: its clients would keep it readable.
  bool has_place() { return clients_.size() < places_ || longest_idle() != clients_.end(); }

  // The idle connection that is the first to reach its deadline; end() if there is none.
  std::list<Client>::iterator longest_idle() {
    auto found = clients_.end();
    for (auto client = clients_.begin(); client != clients_.end(); ++client) {
      if (!client->connection.is_idle()) continue;
      if (found == clients_.end() || client->connection.deadline() < found->connection.deadline())
        found = client;
    }
    return found;
  }

  // Reads, answers and writes what is possible now. False: the connection should be closed.
  bool serve(Client& client) {
    HttpConnection& connection = client.connection;
    if (client.ready && !connection.advance()) return false;
    // All that have arrived together: poll() does not report what has been received already.
    while (const auto request = connection.take_request()) {
      HttpPages::Response response =
          pages_.respond(*request, full_ || connection.is_last_request());
      if (response.text.empty()) return false;
      connection.respond(std::move(response.text), response.close);
      if (!connection.advance()) return false;  // most responses leave at once
    }
    // What has arrived since is read before it counts as late
    return polled_at_ < connection.deadline();
  }

  HttpPages pages_;
  FileDescriptor listener_;
  const int port_;
  FileDescriptor wake_;
  std::list<Client> clients_;
  std::vector<pollfd> polled_;      // wake_, listener_, and the clients in their order
  Clock::time_point polled_at_;     // when poll() returned
  size_t places_ = 0;               // most_connections() in this turn
  bool full_ = false;               // others may be waiting: connections end after their response
  Clock::time_point accept_again_;  // after accept() found no free file descriptor
  std::jthread thread_;             // last: joined before the rest goes
};

HttpServer::HttpServer(const std::string& address, int port, std::vector<Page> pages,
                       std::optional<BasicAuth> auth)
    : impl_(std::make_unique<Impl>(address, port, std::move(pages), std::move(auth))) {}

HttpServer::~HttpServer() = default;

int HttpServer::port() const { return impl_->port(); }

}  // namespace dtrain::monitoring
