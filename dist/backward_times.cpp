#include "dist/backward_times.h"

#include <algorithm>

namespace dtrain::dist {

BackwardTimes::Moment BackwardTimes::now(at::Device device) const {
  if (device.is_cpu()) return {.at = clock_->now(), .mark = {}, .taken = true};
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  return {.at = {}, .mark = Mark(stream, /*timed=*/true), .taken = true};
}

double BackwardTimes::seconds_to(const Moment& moment) const {
  return seconds_between(began_.at, moment.at) + began_.mark.seconds_until(moment.mark);
}

void BackwardTimes::reset() {
  began_ = ended_ = {};
  ready_ = {};
  each_.clear();
}

void BackwardTimes::begin(at::Device device) {
  reset();
  began_ = now(device);
}

void BackwardTimes::ready(at::Device device, size_t bucket, size_t of_buckets) {
  const std::array<bool, 3> is = {bucket == 0, bucket == of_buckets / 2, bucket + 1 == of_buckets};
  if (!began_.taken || !(all_ || is[0] || is[1] || is[2])) return;
  const Moment moment = now(device);
  for (size_t i = 0; i < is.size(); ++i) {
    if (is[i]) ready_[i] = moment;
  }
  if (all_) each_.push_back(moment);
}

void BackwardTimes::end(at::Device device) {
  if (all_ && began_.taken) ended_ = now(device);
}

std::array<double, 3> BackwardTimes::seconds() const {
  std::array<double, 3> seconds{};
  for (size_t i = 0; i < seconds.size(); ++i) {
    if (ready_[i].taken && ready_[i].mark.passed()) seconds[i] = seconds_to(ready_[i]);
  }
  return seconds;
}

std::vector<double> BackwardTimes::shares(size_t of_buckets) const {
  if (!ended_.taken || each_.size() != of_buckets) return {};
  ended_.mark.synchronize();
  const double pass = seconds_to(ended_);
  if (pass <= 0) return {};
  std::vector<double> shares;
  for (const Moment& moment : each_)
    shares.push_back(std::clamp(seconds_to(moment) / pass, 0.0, 1.0));
  return shares;
}

}  // namespace dtrain::dist
