#include "monitoring/http_pages.h"

#include <httplib.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "monitoring/http_connection.h"

namespace dtrain::monitoring {
namespace {

// Whether a client with this Accept-Encoding takes gzip. httplib alone would prefer Brotli, which
// takes the training process more time, and would not see that "gzip;q=0" is a refusal.
bool accepts_gzip(std::string_view encodings) {
  while (!encodings.empty()) {
    std::string_view item = encodings.substr(0, encodings.find(','));
    encodings.remove_prefix(std::min(encodings.size(), item.size() + 1));
    item.remove_prefix(std::min(item.size(), item.find_first_not_of(" \t")));
    if (!item.starts_with("gzip")) continue;
    const size_t weight = item.find("q=");
    return weight == std::string_view::npos ||
           item.find_first_not_of("0. \t", weight + 2) != std::string_view::npos;
  }
  return false;
}

// Whether one of the header lines of a request has this name (in lower case).
bool is_header(std::string_view line, std::string_view name) {
  return line.size() > name.size() && line[name.size()] == ':' &&
         std::equal(name.begin(), name.end(), line.begin(),
                    [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b); });
}

// A request as it is given to httplib.
struct RequestText {
  std::string text;
  bool has_body = false;  // which is not read, and would be taken for the next request
};

// Leaves out the Range header: pages are sent whole, and httplib matches its value with std::regex,
// whose recursion takes about 500 bytes of stack for each character.
RequestText prepared(std::string_view request) {
  RequestText result;
  while (!request.empty()) {
    const std::string_view line = request.substr(0, request.find("\r\n") + 2);
    request.remove_prefix(line.size());
    if (is_header(line, "range")) continue;
    result.has_body |= is_header(line, "content-length") || is_header(line, "transfer-encoding");
    result.text += line;
  }
  return result;
}

// What httplib reads a request from and writes the response to: memory, so that it never waits for
// a client.
class Exchange final : public httplib::Stream {
 public:
  explicit Exchange(std::string_view request) : request_(request) {}
  std::string response;

  bool is_readable() const override { return !request_.empty(); }
  bool is_writable() const override { return true; }
  ssize_t read(char* data, size_t size) override {
    size = std::min(size, request_.size());
    std::copy_n(request_.begin(), size, data);
    request_.remove_prefix(size);
    return static_cast<ssize_t>(size);
  }
  ssize_t write(const char* data, size_t size) override {
    response.append(data, size);
    return static_cast<ssize_t>(size);
  }
  // No page asks who the client is.
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return 0; }

 private:
  std::string_view request_;
};

// "http://host:9500/metrics", the form of a request to a proxy (RFC 9112, section 3.2.2),
// means "/metrics".
std::string_view path_of(std::string_view target) {
  const size_t scheme = target.find("://");
  if (target.starts_with('/') || scheme == std::string_view::npos) return target;
  const size_t path = target.find('/', scheme + 3);
  return path == std::string_view::npos ? "/" : target.substr(path);
}

}  // namespace

// For browsers. A page may load scripts, styles and data from this server only, and no other page
// may show it in a frame; what it shows is neither stored nor named to other sites. (`data:` is the
// empty icon of a page.)
constexpr std::pair<const char*, const char*> kSecurityHeaders[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cache-Control", "no-store"}};

class HttpPages::Impl final : public httplib::Server {
 public:
  Impl(std::vector<Page> pages, std::optional<BasicAuth> auth)
      : pages_(std::move(pages)), auth_(std::move(auth)) {
    // These two are what the Keep-Alive header says
    set_keep_alive_max_count(HttpConnection::kRequests);
    set_keep_alive_timeout(HttpConnection::kIdle.count());
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      answer(request, response);
      return HandlerResponse::Handled;
    });
  }

  Response respond(std::string_view request, bool last) {
    const RequestText prepared_request = prepared(request);
    last |= prepared_request.has_body;
    Exchange exchange(prepared_request.text);
    bool closed = false;
    const bool answered = process_request(exchange, last, closed, [](httplib::Request& parsed) {
      const bool gzip = accepts_gzip(parsed.get_header_value("Accept-Encoding"));
      parsed.headers.erase("Accept-Encoding");
      if (gzip) parsed.set_header("Accept-Encoding", "gzip");
    });
    if (!answered) return {"", /*close=*/true};
    // What follows a request that cannot be read is not one either.
    if (exchange.response.starts_with("HTTP/1.1 400") && !last)
      return respond(request, /*last=*/true);
    return {std::move(exchange.response), last || closed};
  }

 private:
  void answer(const httplib::Request& request, httplib::Response& response) const {
    for (const auto& [name, value] : kSecurityHeaders) response.set_header(name, value);
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
    const std::string_view path = path_of(request.path);
    const auto page = std::ranges::find_if(pages_, [&](const Page& p) { return p.path == path; });
    if (page == pages_.end()) {
      response.status = 404;
      return;
    }
    response.set_content(page->body(request.params), page->content_type);
  }

  const std::vector<Page> pages_;
  const std::optional<BasicAuth> auth_;
};

HttpPages::HttpPages(std::vector<Page> pages, std::optional<BasicAuth> auth)
    : impl_(std::make_unique<Impl>(std::move(pages), std::move(auth))) {}

HttpPages::~HttpPages() = default;

HttpPages::Response HttpPages::respond(std::string_view request, bool last) {
  return impl_->respond(request, last);
}

}  // namespace dtrain::monitoring
