#include "monitoring/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <httplib.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string_view>
#include <thread>
#include <utility>

#include "core/file_descriptor.h"
#include "core/log.h"
#include "core/strings.h"

namespace dtrain::monitoring {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kWorkers = 4;   // connections that are served at the same time: a slow client holds one of them
constexpr size_t kWaiting = 16;  // accepted ones that wait for a worker; more wait in the kernel, unaccepted
constexpr int kBacklog = 16;
constexpr std::chrono::milliseconds kStop{200};  // how long a listener may take to notice its end
constexpr std::chrono::seconds kIdle{2};         // how long a connection may wait for its next request
constexpr std::chrono::seconds kExchange{10};    // from the start of a request to the end of its response
constexpr size_t kRequestBytes = 8192;
// Of a header line. httplib matches the value of a Range header with std::regex, whose recursion takes about 500 bytes
// of stack for each character, and a thread may have no more than 2 MiB (ulimit -s unlimited).
constexpr size_t kLineBytes = 2048;
constexpr int kRequests = 100;  // on one connection

std::runtime_error system_problem() { return std::runtime_error(std::strerror(errno)); }

// A socket that listens on a numeric address. It is made here because httplib sets SO_REUSEPORT, with which two runs
// would share a port without noticing, and does not say why it could not bind one.
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
  FileDescriptor fd(::socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) throw system_problem();
  const int on = 1, off = 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // a port in TIME_WAIT is free
  // Connections inherit it. Headers and body are two writes, and the second would wait for the client's delayed ACK.
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (is_v6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);  // "::" means IPv4 too
  const auto* target = is_v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
  if (::bind(fd.get(), target, is_v6 ? sizeof v6 : sizeof v4) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    throw system_problem();
  }
  return fd;
}

int port_of(int fd) {
  sockaddr_in6 name{};  // the port of an IPv4 name is at the same place
  static_assert(offsetof(sockaddr_in6, sin6_port) == offsetof(sockaddr_in, sin_port));
  socklen_t size = sizeof name;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) == 0 ? ntohs(name.sin6_port) : 0;
}

// Whether a client with this Accept-Encoding takes gzip. httplib alone would prefer Brotli, which takes the training
// process more time, and would not see that "gzip;q=0" is a refusal.
bool accepts_gzip(std::string_view encodings) {
  while (!encodings.empty()) {
    std::string_view item = encodings.substr(0, encodings.find(','));
    encodings.remove_prefix(std::min(encodings.size(), item.size() + 1));
    item.remove_prefix(std::min(item.size(), item.find_first_not_of(" \t")));
    if (!item.starts_with("gzip")) continue;
    const size_t weight = item.find("q=");
    return weight == std::string_view::npos || item.find_first_not_of("0. \t", weight + 2) != std::string_view::npos;
  }
  return false;
}

// A client's connection as httplib reads and writes it. Each exchange of a request and its response has a deadline and
// a largest size, so that a client that sends or reads slowly, or without end, does not hold a thread for long.
class Connection final : public httplib::Stream {
 public:
  explicit Connection(int fd) : fd_(fd) {}

  // Waits for the first byte of the next request. False: the client has closed the connection, or sends nothing.
  bool next_request() {
    deadline_ = Clock::now() + kIdle;
    if (begin_ == end_ && !ready(POLLIN)) return false;
    deadline_ = Clock::now() + kExchange;
    left_ = kRequestBytes;
    return true;
  }

  bool is_readable() const override { return begin_ < end_ || ready(POLLIN); }
  bool is_writable() const override { return ready(POLLOUT); }

  ssize_t read(char* data, size_t size) override {
    if (begin_ == end_ && !fill()) return -1;
    size = std::min({size, end_ - begin_, left_});
    if (size == 0) return -1;
    for (size_t i = 0; i < size; ++i) {
      data[i] = buffer_[begin_++];
      line_ = data[i] == '\n' ? 0 : line_ + 1;
    }
    left_ -= size;
    return line_ > kLineBytes ? -1 : static_cast<ssize_t>(size);
  }

  // How much was written; httplib calls it again for the rest.
  ssize_t write(const char* data, size_t size) override {
    if (!ready(POLLOUT)) return -1;
    const ssize_t written = ::send(fd_, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    return written < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : written;
  }

  // No page asks who the client is.
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return fd_; }

 private:
  bool ready(short events) const {
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
      if (left < 0) return false;
      pollfd polled{fd_, events, 0};
      const int count = ::poll(&polled, 1, static_cast<int>(left) + 1);
      if (count > 0) return true;
      if (count < 0 && errno != EINTR) return false;
    }
  }

  bool fill() {
    if (!ready(POLLIN)) return false;
    const ssize_t count = ::recv(fd_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (count <= 0) return false;
    begin_ = 0;
    end_ = static_cast<size_t>(count);
    return true;
  }

  const int fd_;
  Clock::time_point deadline_;
  size_t left_ = 0;  // bytes that the request may still have
  size_t line_ = 0;  // bytes of its current line
  std::array<char, 4096> buffer_;
  size_t begin_ = 0, end_ = 0;  // of the buffer: received and not yet read
};

// The threads that serve connections. httplib's own pool ends the process when a thread cannot be created, and accepts
// connections without bound, which would take the file descriptors that a checkpoint needs.
class Workers final : public httplib::TaskQueue {
 public:
  Workers() {
    for (size_t i = 0; i < kWorkers; ++i) threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }

  void enqueue(std::function<void()> task) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return tasks_.size() < kWaiting; });
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }

  void shutdown() override { threads_.clear(); }  // asks each to stop and joins it; what waits is worked off before

 private:
  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return !tasks_.empty(); })) {
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      changed_.notify_all();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::jthread> threads_;  // last: joined before the rest goes
};

}  // namespace

class HttpServer::Impl final : public httplib::Server {
 public:
  Impl(const std::string& address, int port, std::vector<Page> pages, std::optional<BasicAuth> auth)
      : pages_(std::move(pages)), auth_(std::move(auth)), workers_(std::make_unique<Workers>()) {
    set_keep_alive_max_count(kRequests);  // these two are what the Keep-Alive header says
    set_keep_alive_timeout(kIdle.count());
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      answer(request, response);
      return HandlerResponse::Handled;
    });
    new_task_queue = [this] { return workers_.release(); };  // httplib calls it once, and deletes it
    socket_ = listening_socket(address, port);
    port_ = port_of(socket_.get());
    listener_ = std::thread([this] { listen(); });
  }

  ~Impl() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      for (const int fd : connections_) ::shutdown(fd, SHUT_RDWR);  // wakes the worker that reads or writes it
    }
    ::shutdown(socket_.get(), SHUT_RDWR);  // accept() fails. httplib's stop() would close what accept() may still use.
    {
      std::unique_lock lock(mutex_);
      // In a process without free file descriptors accept() fails in another way, after which httplib tries again.
      if (!stopped_.wait_for(lock, kStop, [this] { return ended_; })) svr_sock_ = INVALID_SOCKET;
    }
    listener_.join();
  }

  int port() const { return port_; }

 private:
  void listen() {
    std::string problem = "it can no longer accept connections";
    try {
      svr_sock_ = ::fcntl(socket_.get(), F_DUPFD_CLOEXEC, 0);  // httplib closes this one when accept() fails
      listen_after_bind();
    } catch (const std::exception& e) {
      problem = e.what();
    }
    ::shutdown(socket_.get(), SHUT_RDWR);  // clients are refused at once
    const std::lock_guard lock(mutex_);
    ended_ = true;
    stopped_.notify_all();
    if (!ending_) log::warning(str("the HTTP server on port ", port_, " ended: ", problem, ". Training continues"));
  }

  // In place of httplib's, which would wait for an idle connection at the end, and for a slow client without bound.
  bool process_and_close_socket(socket_t fd) override {
    {
      const std::lock_guard lock(mutex_);
      if (ending_) return ::close(fd) == 0;
      connections_.insert(fd);
    }
    try {
      serve(fd);
    } catch (const std::exception&) {
      // Out of memory, most likely. This client receives nothing.
    }
    {
      const std::lock_guard lock(mutex_);
      connections_.erase(fd);
    }
    return ::close(fd) == 0;
  }

  void serve(int fd) {
    Connection connection(fd);
    for (int left = kRequests; left > 0 && connection.next_request(); --left) {
      bool closed = false, whole = false;
      const bool answered = process_request(connection, left == 1, closed, [&](httplib::Request& request) {
        request.ranges.clear();  // pages are sent whole
        const bool gzip = accepts_gzip(request.get_header_value("Accept-Encoding"));
        request.headers.erase("Accept-Encoding");
        if (gzip) request.set_header("Accept-Encoding", "gzip");
        // A body is not read, and would be taken for the next request.
        whole = !request.has_header("Content-Length") && !request.has_header("Transfer-Encoding");
      });
      if (!answered || closed || !whole) return;
    }
  }

  void answer(const httplib::Request& request, httplib::Response& response) const {
    if (auth_ && !auth_->accepts(request.get_header_value("Authorization"))) {
      response.status = 401;
      response.set_header("WWW-Authenticate", R"(Basic realm="dtrain", charset="UTF-8")");
      return;
    }
    if (request.method != "GET" && request.method != "HEAD") {
      response.status = 405;
      response.set_header("Allow", "GET, HEAD");
      return;
    }
    const auto page = std::find_if(pages_.begin(), pages_.end(), [&](const Page& p) { return p.path == request.path; });
    if (page == pages_.end()) {
      response.status = 404;
      return;
    }
    response.set_content(page->body(), page->content_type);
  }

  const std::vector<Page> pages_;
  const std::optional<BasicAuth> auth_;
  std::unique_ptr<Workers> workers_;  // until httplib takes them
  FileDescriptor socket_;
  int port_ = 0;
  std::mutex mutex_;
  std::set<int> connections_;  // sockets that a worker serves
  bool ending_ = false;
  bool ended_ = false;               // the listener accepts no more
  std::condition_variable stopped_;  // ended_ is set
  std::thread listener_;
};

HttpServer::HttpServer(const std::string& address, int port, std::vector<Page> pages, std::optional<BasicAuth> auth)
    : impl_(std::make_unique<Impl>(address, port, std::move(pages), std::move(auth))) {}

HttpServer::~HttpServer() = default;

int HttpServer::port() const { return impl_->port(); }

}  // namespace dtrain::monitoring
