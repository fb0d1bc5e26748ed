#include "dist/lone_communicator.h"

#include <mutex>
#include <string>

#include "core/check.h"
#include "dist/peer_error.h"

namespace dtrain::dist {
namespace {

class LoneCommunicator final : public MeteredCommunicator {
 public:
  LoneCommunicator() : MeteredCommunicator(0, 1) {}

  Work all_reduce(at::Tensor inout, ReduceOp) override {
    DTRAIN_CHECK(at::isFloatingType(inout.scalar_type()) || inout.scalar_type() == at::kLong,
                 "tensors of ", c10::toString(inout.scalar_type()), " cannot be reduced");
    return done();
  }
  Work all_gather(at::Tensor out, at::Tensor in) override {
    DTRAIN_CHECK(in.numel() == out.numel() && in.dtype() == out.dtype(), in.numel(), " to ",
                 out.numel(), " elements");
    const at::NoGradGuard no_grad;
    out.view({-1}).copy_(in.view({-1}));
    return done();
  }
  Work broadcast(at::Tensor, int root) override {
    DTRAIN_CHECK(root == 0, "broadcast from rank ", root, " of 1");
    return done();
  }
  void barrier() override { check(); }

  void check() override {
    const std::lock_guard lock(mutex_);
    if (!reason_.empty()) throw PeerError("the communicator can no longer be used: " + reason_);
  }

  void abort(std::string_view reason) noexcept override {
    const std::lock_guard lock(mutex_);
    if (reason_.empty()) reason_ = reason.empty() ? "it was aborted" : reason;
  }

  std::string_view name() const override { return "none"; }
  bool can_be_captured() const override { return true; }
  Traffic traffic() override { return {}; }
  void record(trace::Track*) override {}

 private:
  // As with the other communicators, wait() throws, not this.
  Work done() {
    return Work([this] {
      check();
      return std::nullopt;
    });
  }

  mutable std::mutex mutex_;
  std::string reason_;  // why it is aborted; empty: it is not
};

}  // namespace

std::unique_ptr<MeteredCommunicator> make_lone_communicator() {
  return std::make_unique<LoneCommunicator>();
}

}  // namespace dtrain::dist
