#include "monitoring/metrics_page.h"

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <utility>

namespace dtrain::monitoring {

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

}  // namespace dtrain::monitoring
