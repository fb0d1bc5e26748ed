#pragma once

// What every endpoint of metrics has: the page that Prometheus scrapes, its password, and counters
// that follow a total which is kept elsewhere. Thread-safety: pure, but for the file of
// the password.

#include <memory>
#include <optional>

#include "config/config.h"
#include "monitoring/basic_auth.h"
#include "monitoring/http_pages.h"

namespace prometheus {
class Counter;
class Registry;
}  // namespace prometheus

namespace dtrain::monitoring {

Page metrics_page(std::shared_ptr<prometheus::Registry> registry);  // /metrics, in the text format
std::optional<BasicAuth> auth_of(const config::Metrics&);   // none without auth_file. ConfigError
void raise_to(prometheus::Counter& counter, double total);  // never lowers it

}  // namespace dtrain::monitoring
