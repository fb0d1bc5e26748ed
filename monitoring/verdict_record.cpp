#include "monitoring/verdict_record.h"

#include <cmath>

#include "core/strings.h"

namespace dtrain::monitoring {

std::string text_of(const VerdictRecord::Communication& communication) {
  const struct {
    const char* name;
    double seconds;
  } parts[] = {{"late rank", communication.late},
               {"latency", communication.latency},
               {"bandwidth", communication.bandwidth},
               {"not overlapped", communication.not_overlapped},
               {"other", communication.other}};
  double sum = 0;
  std::string text;
  for (const auto& [name, seconds] : parts) {
    if (std::isnan(seconds)) continue;
    sum += seconds;
    text += str(text.empty() ? "" : " + ", name, " ", fixed(1e3 * seconds, 1));
  }
  return text.empty() ? "" : str("communication: ", fixed(1e3 * sum, 1), " ms per step = ", text);
}

}  // namespace dtrain::monitoring
