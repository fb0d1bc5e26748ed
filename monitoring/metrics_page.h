#pragma once

// What every endpoint of metrics has: the page that Prometheus scrapes, and its password.
// Thread-safety: pure, but for the file of the password.

#include <memory>
#include <optional>

#include "config/config.h"
#include "monitoring/basic_auth.h"
#include "monitoring/http_pages.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace dtrain::monitoring {

Page metrics_page(std::shared_ptr<prometheus::Registry> registry);  // /metrics, in the text format
std::optional<BasicAuth> auth_of(const config::Metrics&);  // none without auth_file. ConfigError

}  // namespace dtrain::monitoring
