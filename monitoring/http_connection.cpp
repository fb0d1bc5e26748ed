#include "monitoring/http_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

namespace dtrain::monitoring {
namespace {

constexpr std::string_view kEndOfRequest = "\r\n\r\n";

bool would_block(int code) { return code == EAGAIN || code == EWOULDBLOCK || code == EINTR; }

}  // namespace

HttpConnection::HttpConnection(FileDescriptor socket)
    : socket_(std::move(socket)), deadline_(std::chrono::steady_clock::now() + kIdle) {}

short HttpConnection::events() const { return response_.empty() ? POLLIN : POLLOUT; }

bool HttpConnection::advance() { return response_.empty() ? receive() : send(); }

bool HttpConnection::receive() {
  std::array<char, 4096> buffer;
  const ssize_t count = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (count < 0) return would_block(errno);
  if (count == 0) return false;
  if (received_.empty()) deadline_ = std::chrono::steady_clock::now() + kExchange;
  received_.append(buffer.data(), static_cast<size_t>(count));
  // Several requests may have arrived together: only the first one counts.
  return received_.size() <= kRequestBytes ||
         received_.find(kEndOfRequest) <= kRequestBytes - kEndOfRequest.size();
}

std::optional<std::string> HttpConnection::take_request() {
  if (!response_.empty()) return std::nullopt;
  const size_t end = received_.find(kEndOfRequest);
  if (end == std::string::npos) return std::nullopt;
  std::string request = received_.substr(0, end + kEndOfRequest.size());
  received_.erase(0, request.size());
  ++requests_;
  return request;
}

void HttpConnection::respond(std::string response, bool close) {
  response_ = std::move(response);
  sent_ = 0;
  closing_ = close;
}

bool HttpConnection::send() {
  const ssize_t count = ::send(socket_.get(), response_.data() + sent_, response_.size() - sent_,
                               MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count < 0) return would_block(errno);
  sent_ += static_cast<size_t>(count);
  if (sent_ < response_.size()) return true;
  response_.clear();
  response_.shrink_to_fit();
  deadline_ = std::chrono::steady_clock::now() + (received_.empty() ? kIdle : kExchange);
  return !closing_;
}

}  // namespace dtrain::monitoring
