#include "monitoring/verdict_record.h"

#include <cmath>

#include "text/strings.h"

namespace dtrain::monitoring {

std::string text_of(const VerdictRecord::Communication& communication) {
  double sum = 0;
  std::string text;
  for (const CommunicationPart& part : kCommunicationParts) {
    const double seconds = communication.*part.seconds;
    if (std::isnan(seconds)) continue;
    sum += seconds;
    text += str(text.empty() ? "" : " + ", part.words, " ", fixed(1e3 * seconds, 1));
  }
  return text.empty() ? "" : str("communication: ", fixed(1e3 * sum, 1), " ms per step = ", text);
}

std::string text_of(const VerdictRecord::Probes& probes) {
  constexpr double kMebibyte = 1 << 20;
  std::vector<std::string> parts;
  if (std::isfinite(probes.cached_step)) {
    parts.push_back(fixed(1e3 * probes.cached_step, 1) + " ms per step with batches from memory");
  }
  if (std::isfinite(probes.latency) && std::isfinite(probes.seconds_per_byte)) {
    parts.push_back(str(fixed(1e3 * probes.latency, 3), " ms + ",
                        fixed(1e3 * kMebibyte * probes.seconds_per_byte, 3),
                        " ms per MiB for an all-reduce"));
  }
  return parts.empty() ? "" : "measured before training: " + join(parts, "; ");
}

}  // namespace dtrain::monitoring
