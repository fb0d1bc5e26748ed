#include "dist/staged_communicator.h"

#include "core/check.h"
#include "device/device.h"
#include "dist/backoff.h"
#include "dist/comm_thread.h"
#include "dist/side_stream.h"

namespace dtrain::dist {
namespace {

class StagedCommunicator final : public MeteredCommunicator {
 public:
  StagedCommunicator(std::unique_ptr<MeteredCommunicator> host, at::Device device)
      : MeteredCommunicator(host->rank(), host->size()),
        host_(std::move(host)),
        device_(device),
        down_(device),
        up_(device),
        // An event that is made or destroyed on a thread whose current GPU is another one opens a
        // second context of hundreds of megabytes there.
        thread_(std::make_unique<CommThread>("staged", [device] { device::use(device); })) {}

  // Aborting may reach other ranks, which are not at their end yet. Only what still runs needs it.
  ~StagedCommunicator() override {
    if (!thread_->idle()) host_->abort("the staged communicator was destroyed");
  }

  Work all_reduce(at::Tensor inout, ReduceOp op) override {
    const at::Tensor host = host_like(inout);
    return stage(inout, host, inout, host, [=, this] { return host_->all_reduce(host, op); });
  }

  Work all_gather(at::Tensor out, at::Tensor in) override {
    const at::Tensor host_in = host_like(in), host_out = host_like(out);
    return stage(in, host_in, out, host_out,
                 [=, this] { return host_->all_gather(host_out, host_in); });
  }

  Work broadcast(at::Tensor inout, int root) override {
    const at::Tensor host = host_like(inout);
    return stage(inout, host, inout, host, [=, this] { return host_->broadcast(host, root); });
  }

  void barrier() override {
    thread_->submit([this] { host_->barrier(); }).wait();
  }

  void abort(std::string_view reason) noexcept override {
    host_->abort(reason);
    thread_->fail(reason);
  }

  std::string_view name() const override { return "staged"; }
  void check() override {
    thread_->throw_if_failed();
    host_->check();
  }
  Traffic traffic() override { return host_->traffic(); }
  void record(trace::Track* track) override { host_->record(track); }

 private:
  at::Tensor host_like(const at::Tensor& tensor) const {
    DTRAIN_CHECK(tensor.is_contiguous() && tensor.device() == device_, "a contiguous tensor on ",
                 device_.str(), " was expected; this one is on ", tensor.device().str());
    return at::empty(tensor.sizes(),
                     tensor.options().device(at::kCPU).pinned_memory(!device_.is_cpu()));
  }

  // in -> host_in, the operation between hosts, host_out -> out.
  Work stage(at::Tensor in, at::Tensor host_in, at::Tensor out, at::Tensor host_out,
             std::function<Work()> between_hosts) {
    const at::NoGradGuard no_grad;
    const Mark copied_down =
        down_.run_after_current({in}, [&] { host_in.copy_(in, /*non_blocking=*/true); });
    auto copied_up = std::make_shared<Mark>();
    Work carried = thread_->submit([=, this, between_hosts = std::move(between_hosts)]() mutable {
      const at::NoGradGuard no_grad;
      for (Backoff backoff; !copied_down.passed(); backoff.wait()) thread_->throw_if_failed();
      between_hosts().wait();
      *copied_up = up_.run({out}, [&] { out.copy_(host_out, /*non_blocking=*/true); });
    });
    // A std::function must be copyable, and a Work is not.
    return Work([=, this, carried = std::make_shared<Work>(std::move(carried))] {
      carried->wait();
      copied_up->order_before_current(device_);
      return std::nullopt;
    });
  }

  std::unique_ptr<MeteredCommunicator> host_;
  at::Device device_;
  SideStream down_, up_;
  std::unique_ptr<CommThread> thread_;  // last, because its thread uses the others
};

}  // namespace

std::unique_ptr<MeteredCommunicator> make_staged_communicator(
    std::unique_ptr<MeteredCommunicator> host, at::Device device) {
  return std::make_unique<StagedCommunicator>(std::move(host), device);
}

}  // namespace dtrain::dist
