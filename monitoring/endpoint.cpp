#include "monitoring/endpoint.h"

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <exception>
#include <utility>

#include "core/log.h"
#include "text/strings.h"

namespace dtrain::monitoring {
namespace {

struct Attempt {
  std::unique_ptr<HttpServer> server;
  std::string problem;  // why there is none
};

Attempt serve(const std::string& bind, int64_t port, const std::vector<Page>& pages,
              const std::optional<BasicAuth>& auth) {
  if (port < 0 || port > 65535) return {nullptr, "the highest port is 65535"};
  try {
    return {std::make_unique<HttpServer>(bind, static_cast<int>(port), pages, auth), ""};
  } catch (const std::exception& e) {
    return {nullptr, e.what()};
  }
}

// As in a URL, where the colons of an IPv6 address need brackets.
std::string host_and_port(const std::string& host, int64_t port) {
  const bool bare = host.find(':') == std::string::npos || host.starts_with('[');
  return bare ? str(host, ":", port) : str("[", host, "]:", port);
}

}  // namespace

Page metrics_page(std::shared_ptr<prometheus::Registry> registry) {
  return {"/metrics", "text/plain; version=0.0.4; charset=utf-8",
          [registry = std::move(registry)](const Query&) {
            return prometheus::TextSerializer().Serialize(registry->Collect());
          }};
}

std::optional<BasicAuth> auth_of(const config::Metrics& metrics) {
  std::optional<BasicAuth> auth;
  if (!metrics.auth_file.empty()) auth.emplace(metrics.auth_file);
  return auth;
}

Endpoint open_endpoint(const std::string& bind, int64_t port, const std::vector<Page>& pages,
                       const std::optional<BasicAuth>& auth, const std::string& node,
                       const std::string& who, const char* flag_of_port) {
  Attempt attempt = serve(bind, port, pages, auth);
  if (!attempt.server) {
    const std::string what = str(who, " cannot serve its metrics on ", host_and_port(bind, port),
                                 " (", attempt.problem, ")");
    attempt = serve(bind, 0, pages, auth);
    if (!attempt.server) {
      log::warning(str(what,
                       ". Training continues without them. Set --metrics.bind to an IP address of "
                       "this machine, such as 127.0.0.1, ::1 or 0.0.0.0"));
      return {};
    }
    log::warning(str(what, " and uses port ", attempt.server->port(),
                     " instead, which the targets file names. Set ", flag_of_port,
                     " to choose another"));
  }
  const bool everywhere = bind == "0.0.0.0" || bind == "::";
  std::string address = host_and_port(everywhere ? node : bind, attempt.server->port());
  return {std::move(attempt.server), std::move(address)};
}

}  // namespace dtrain::monitoring
