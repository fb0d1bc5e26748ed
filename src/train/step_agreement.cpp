#include "train/step_agreement.h"

namespace dtrain::train {

StepAgreement::StepAgreement(dist::Communicator& host) : host_(host), flags_(at::zeros({2}, at::kLong)) {}

Wishes StepAgreement::exchange(Wishes mine) {
  if (host_.size() == 1) return mine;
  Wishes agreed;
  if (under_way_) {
    pending_.wait();
    agreed = {flags_[0].item<int64_t>() != 0, flags_[1].item<int64_t>() != 0};
  }
  flags_ = at::tensor({int64_t{mine.stop}, int64_t{mine.save}}, at::kLong);
  pending_ = host_.all_reduce(flags_, dist::ReduceOp::kMax);
  under_way_ = true;
  return agreed;
}

void StepAgreement::settle() {
  if (under_way_) pending_.wait();
  under_way_ = false;
}

}  // namespace dtrain::train
