#include "train/step_agreement.h"

namespace dtrain::train {

StepAgreement::StepAgreement(dist::Communicator& host)
    : host_(host), flags_(at::zeros({5}, at::kLong)) {}

Requests StepAgreement::exchange(const Requests& mine) {
  if (host_.size() == 1) return granted_ = mine;
  granted_ = {};
  if (in_flight_) {
    pending_.wait();
    const int64_t* flags = flags_.const_data_ptr<int64_t>();
    granted_ = {flags[0] != 0, flags[1] != 0, flags[2] != 0, flags[3] != 0, flags[4] != 0};
  }
  flags_ = at::tensor({int64_t{mine.stop}, int64_t{mine.save}, int64_t{mine.evaluate},
                       int64_t{mine.log}, int64_t{mine.verdict}},
                      at::kLong);
  pending_ = host_.all_reduce(flags_, dist::ReduceOp::kMax);
  in_flight_ = true;
  return granted_;
}

Requests StepAgreement::exchange_now(const Requests& mine) {
  const Requests granted = exchange(mine);
  return host_.size() == 1 ? granted : exchange({});
}

void StepAgreement::settle() {
  if (in_flight_) pending_.wait();
  in_flight_ = false;
}

}  // namespace dtrain::train
