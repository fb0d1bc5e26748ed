#pragma once

// Where a process serves its metrics: the page that Prometheus scrapes, and its password. It is
// opened so that training never depends on it: a port in use is replaced by a free one, and a
// process that cannot serve at all goes on without. A warning says so in both cases.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "monitoring/http_server.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace dtrain::monitoring {

Page metrics_page(std::shared_ptr<prometheus::Registry> registry);  // /metrics, in the text format
std::optional<BasicAuth> auth_of(const config::Metrics&);  // none without auth_file. ConfigError

struct Endpoint {
  std::unique_ptr<HttpServer> server;  // null: nothing could be bound
  // For a scraper: "127.0.0.1:9500", "[::1]:9500", "NODE:9500"; "" without server
  std::string address;
};

// Serves `pages` on bind:port. Port 0 is any free port; a port that is in use or above 65535 is
// replaced by one. `node` is the host name that the address has when `bind` means all interfaces;
// `who`, as "rank 1", and `flag_of_port` are for the warnings. Never throws.
Endpoint open_endpoint(const std::string& bind, int64_t port, const std::vector<Page>& pages,
                       const std::optional<BasicAuth>& auth, const std::string& node,
                       const std::string& who, const char* flag_of_port = "--metrics.port");

}  // namespace dtrain::monitoring
