#pragma once

// Read-only pages, and the responses to requests for them: text in, text out, without a socket.
// cpp-httplib parses the requests and writes the responses (HTTP/1.1, GET and HEAD, keep-alive,
// gzip). Every response tells a browser to load nothing from elsewhere, to run no script but the
// pages', and to keep no copy.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "monitoring/basic_auth.h"

namespace dtrain::monitoring {

// The names and values of a request's "?name=value", decoded.
using Query = std::multimap<std::string, std::string>;

// A page that GET and HEAD find at `path` ("/metrics"). `body` is called for each request; if it
// throws, the client receives status 500.
struct Page {
  std::string path, content_type;
  std::function<std::string(const Query&)> body;
};

// Thread-safety: none; one thread owns it.
class HttpPages {
 public:
  // With `auth` every request needs its user name and password.
  HttpPages(std::vector<Page> pages, std::optional<BasicAuth> auth);
  ~HttpPages();
  HttpPages(const HttpPages&) = delete;
  HttpPages& operator=(const HttpPages&) = delete;

  struct Response {
    // Status line, headers and body; empty: none, and the connection should be closed
    std::string text;
    bool close;  // the connection ends after it
  };
  // To a request line with its headers, up to and including the empty line. A body is not read; the
  // connection ends after such a request. `last`: the connection ends after this one in any case.
  Response respond(std::string_view request, bool last);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::monitoring
