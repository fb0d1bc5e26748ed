#pragma once

// One client of the HTTP server: its socket, the part of a request that has arrived, and the part
// of the response that it has not taken yet. No call waits, so that one thread can hold many
// connections, and a client that sends or reads slowly, or nothing at all, costs a file descriptor
// and nothing else. Knows requests only as blocks of text that end in an empty line; bodies of
// requests are not read.
//
// Thread-safety: none; one thread owns it.

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "os/file_descriptor.h"

namespace dtrain::monitoring {

class HttpConnection {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::seconds kIdle{
      2};  // how long a connection may wait for its next request
  static constexpr std::chrono::seconds kExchange{
      10};  // from a request's first byte to its response's last byte
  static constexpr size_t kRequestBytes = 8192;  // largest request, without its body
  static constexpr int kRequests = 100;          // answered on one connection

  explicit HttpConnection(FileDescriptor socket);  // a connected, non-blocking socket

  int socket() const { return socket_.get(); }
  short events() const;  // what poll(2) should wait for: POLLIN, or POLLOUT with a response left
  TimePoint deadline() const { return deadline_; }  // when it is given up

  // It has answered a request and has nothing of another one.
  bool is_idle() const { return requests_ > 0 && received_.empty() && response_.empty(); }

  // Reads or writes what is possible now. False: the client has closed it, or sent too much; there
  // is no use for it.
  [[nodiscard]] bool advance();

  // The request line and headers, up to and including the empty line, once all of it has arrived
  // and the response before it has left. Each is returned once.
  std::optional<std::string> take_request();
  // Whether the request just taken is the last one of the connection
  bool is_last_request() const { return requests_ >= kRequests; }

  // Sends `response` in answer to the request taken last. `close`: the connection ends after it.
  void respond(std::string response, bool close);

 private:
  bool receive();
  bool send();

  FileDescriptor socket_;
  TimePoint deadline_;
  std::string received_;  // and not yet taken
  std::string response_;
  size_t sent_ = 0;       // bytes of the response
  int requests_ = 0;      // taken
  bool closing_ = false;  // after the response
};

}  // namespace dtrain::monitoring
