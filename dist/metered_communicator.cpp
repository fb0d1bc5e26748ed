#include "dist/metered_communicator.h"

#include <utility>

namespace dtrain::dist {
namespace {

class MeteredHostCommunicator final : public MeteredCommunicator {
 public:
  explicit MeteredHostCommunicator(std::unique_ptr<Communicator> inner)
      : MeteredCommunicator(inner->rank(), inner->size()), inner_(std::move(inner)) {}

  at::Tensor allocate(at::IntArrayRef sizes, const at::TensorOptions& options) override {
    return inner_->allocate(sizes, options);
  }
  Work all_reduce(at::Tensor inout, ReduceOp op) override {
    const auto bytes = static_cast<int64_t>(inout.nbytes());
    return counted(Collective::kAllReduce, bytes, inner_->all_reduce(std::move(inout), op));
  }
  Work all_gather(at::Tensor out, at::Tensor in) override {
    const auto bytes = static_cast<int64_t>(in.nbytes());
    return counted(Collective::kAllGather, bytes,
                   inner_->all_gather(std::move(out), std::move(in)));
  }
  Work broadcast(at::Tensor inout, int root) override {
    const auto bytes = static_cast<int64_t>(inout.nbytes());
    return counted(Collective::kBroadcast, bytes, inner_->broadcast(std::move(inout), root));
  }
  void barrier() override {
    const trace::Time began = trace::now();
    inner_->barrier();
    meter_.add(Collective::kBarrier, 0, {began, trace::now()});
  }
  void abort(std::string_view reason) noexcept override { inner_->abort(reason); }
  void check() override { inner_->check(); }
  std::string_view name() const override { return inner_->name(); }

  Traffic traffic() override { return meter_.totals(); }
  void record(trace::Track* track) override { meter_.record(track); }

 private:
  Work counted(Collective operation, int64_t bytes, Work work) {
    // A std::function must be copyable, and a Work is not.
    return Work([this, operation, bytes, work = std::make_shared<Work>(std::move(work))] {
      const std::optional<TimeSpan> ran = work->wait();
      if (ran) meter_.add(operation, bytes, *ran);
      return ran;
    });
  }

  const std::unique_ptr<Communicator> inner_;
  TrafficMeter meter_;
};

}  // namespace

std::unique_ptr<MeteredCommunicator> make_metered_communicator(
    std::unique_ptr<Communicator> inner) {
  return std::make_unique<MeteredHostCommunicator>(std::move(inner));
}

}  // namespace dtrain::dist
