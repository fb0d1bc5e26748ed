#include "tune/largest_batch.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dtrain::tune {
namespace {

constexpr int64_t kLongestClimb = 16;  // times the batch that fits: a line is not trusted further

class Search {
 public:
  explicit Search(const BatchSearch& search) : search_(search), low_(0), high_(search.most + 1) {}

  int64_t low() const { return low_; }
  bool all_fit() const { return low_ == search_.most; }
  bool is_known() const { return failed() && high_ - low_ <= step_at_limit(); }

  void take(const BatchTrial& trial) {
    const int64_t width = high_ - low_;
    if (trial.fits) {
      low_ = std::max(low_, trial.batch);
    } else {
      high_ = std::min(high_, trial.batch);
    }
    shrunk_ = 2 * (high_ - low_) <= width;
    if (!std::isnan(trial.bytes))
      known_.emplace_back(static_cast<double>(trial.batch), trial.bytes);
    if (trial.sample_bytes > 0) sample_bytes_ = trial.sample_bytes;
  }

  int64_t next() const {
    const std::optional<double> limit = predicted();
    // Where the line says that the limit is; beyond it, when this side of it is known.
    const int64_t step = step_at_limit(),
                  there = static_cast<int64_t>(std::min(limit.value_or(0), 1e15));
    if (!failed()) {  // climb
      const int64_t next = limit ? std::clamp(there, low_ + step, kLongestClimb * low_) : 2 * low_;
      return std::min(next, search_.most);
    }
    const int64_t middle = low_ + (high_ - low_) / 2;
    if (!limit || (!shrunk_ && low_ > 0)) return middle;
    if (there < low_ + step) return low_ + step;
    if (there > high_ - step) return std::max(low_ + 1, high_ - step);
    return there;
  }

 private:
  bool failed() const { return high_ <= search_.most; }
  int64_t step_at_limit() const {
    return std::max<int64_t>(1,
                             static_cast<int64_t>(static_cast<double>(low_) * search_.resolution));
  }

  // The batch at which the line through the two largest batches with known memory reaches the
  // limit; with one batch, the line with the slope that it gives.
  std::optional<double> predicted() const {
    if (search_.limit_bytes <= 0 || known_.empty()) return std::nullopt;
    if (known_.size() == 1) {
      if (sample_bytes_ <= 0) return std::nullopt;
      return std::max(0.0,
                      known_[0].first + (search_.limit_bytes - known_[0].second) / sample_bytes_);
    }
    std::vector<std::pair<double, double>> points = known_;
    std::sort(points.begin(), points.end());
    const auto& [batch, bytes] = points.back();
    // The smaller one as far away as half of it, so that noise does not make the slope.
    const auto smaller = std::find_if(points.rbegin() + 1, points.rend(), [&](const auto& point) {
      return 2 * point.first <= points.back().first;
    });
    const auto& [batch0, bytes0] = smaller == points.rend() ? points.front() : *smaller;
    const double slope = (bytes - bytes0) / (batch - batch0);
    if (!(slope > 0)) return std::nullopt;
    return std::max(0.0, batch + (search_.limit_bytes - bytes) / slope);
  }

  const BatchSearch& search_;
  int64_t low_, high_;       // fits (0: nothing was tried); does not fit
  bool shrunk_ = true;       // the last trial left at most half of the interval
  double sample_bytes_ = 0;  // 0: unknown
  std::vector<std::pair<double, double>> known_;
};

}  // namespace

LargestBatch find_largest_batch(const BatchSearch& options,
                                const std::function<std::optional<BatchTrial>(int64_t)>& oracle) {
  LargestBatch found;
  Search search(options);
  int64_t batch = std::clamp<int64_t>(options.start, 1, options.most);
  while (true) {
    const std::optional<BatchTrial> trial = oracle(batch);
    if (!trial) break;
    found.trials.push_back(*trial);
    search.take(*trial);
    found.batch = search.low();
    if (search.all_fit() || search.is_known()) {
      found.end = search.all_fit() ? LargestBatch::End::kMost : LargestBatch::End::kLimit;
      break;
    }
    batch = search.next();
  }
  return found;
}

}  // namespace dtrain::tune
