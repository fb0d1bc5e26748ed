#include "dist/gradient_reducer.h"

#include <torch/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <map>
#include <unordered_map>
#include <utility>

#include "core/check.h"
#include "core/log.h"
#include "core/random.h"
#include "dist/bucket_transfer.h"

namespace dtrain::dist {

namespace {

void check_parameters(const std::vector<NamedParameter>& parameters) {
  DTRAIN_CHECK(!parameters.empty(), "There is nothing to train.");
  std::map<const void*, std::string> seen;
  for (const auto& [name, tensor] : parameters) {
    DTRAIN_CHECK(tensor.is_leaf() && tensor.requires_grad(), name,
                 " is not a leaf that requires a gradient.");
    DTRAIN_CHECK(tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble, name,
                 " is ", c10::toString(tensor.scalar_type()),
                 "; parameters are Float or Double, and autocast computes in lower precision.");
    DTRAIN_CHECK(tensor.device() == parameters[0].tensor.device(), name, " is on ",
                 tensor.device().str());
    DTRAIN_CHECK(tensor.is_non_overlapping_and_dense(), name,
                 " has gaps in memory; call contiguous() on it first.");
    const auto [first, added] = seen.emplace(tensor.unsafeGetTensorImpl(), name);
    DTRAIN_CHECK(added, name, " and ", first->second, " are one tensor; list it once.");
    DTRAIN_CHECK(!torch::autograd::impl::post_acc_grad_hooks(tensor), name,
                 " has a gradient hook of another owner.");
  }
}

// A hash of all that has to be equal for the ranks' buckets to match.
uint64_t fingerprint(const std::vector<NamedParameter>& parameters,
                     const GradientReducer::Options& options) {
  uint64_t hash = keyed(options.cap_bytes, options.first_bytes, parameters.size(),
                        static_cast<uint64_t>(options.wire.value_or(at::ScalarType::Undefined)));
  for (const auto& [name, tensor] : parameters) {
    for (const char letter : name) hash = keyed(hash, static_cast<uint64_t>(letter));
    hash = keyed(hash, static_cast<uint64_t>(tensor.scalar_type()));
    for (int64_t d = 0; d < tensor.dim(); ++d) hash = keyed(hash, tensor.size(d), tensor.stride(d));
  }
  return hash;
}

struct Hook : torch::autograd::PostAccumulateGradHook {
  explicit Hook(std::function<void()> call) : call_(std::move(call)) {}
  void operator()(const torch::autograd::Variable&) override { call_(); }
  std::function<void()> call_;
};

}  // namespace

class GradientReducer::Impl {
 public:
  Impl(std::vector<NamedParameter> parameters, Communicator& gradients, Communicator& host,
       Options options)
      : times_(*options.clock),
        all_(std::move(parameters)),
        gradients_(gradients),
        host_(host),
        options_(options) {
    check_parameters(all_);
    gathers_ = options.gather.value_or(device().is_cuda());
    check_ranks_agree();
    used_.assign(all_.size(), false);
    ready_.assign(all_.size(), false);
    std::vector<size_t> everyone(all_.size());
    for (size_t i = 0; i < all_.size(); ++i) {
      everyone[i] = i;
      index_of_.emplace(all_[i].tensor.unsafeGetTensorImpl(), i);
    }
    lay_out(everyone);
    const at::TensorOptions sums = at::TensorOptions(device()).dtype(at::kDouble);
    sums_ = gradients_.allocate({2}, sums).zero_();
    totals_ = at::zeros({2}, sums);
    for (size_t i = 0; i < all_.size(); ++i) {
      torch::autograd::impl::set_post_acc_grad_hooks(
          all_[i].tensor, std::make_unique<Hook>([this, i] { arrived(i); }));
    }
  }

  ~Impl() {
    for (const auto& parameter : all_)
      torch::autograd::impl::set_post_acc_grad_hooks(parameter.tensor, nullptr);
  }

  void arm(bool last, bool has_samples) {
    DTRAIN_CHECK(mode_ != Mode::kArmed, "arm() after the last micro-step; finish() is missing.");
    mode_ = last ? Mode::kArmed : Mode::kAccumulating;
    has_samples_ = has_samples;
    sampled_ = sampled_ || has_samples;
    ready_.assign(all_.size(), false);
    times_.reset();
    next_ = 0;
    for (FilledBucket& bucket : buckets_) bucket.pending = bucket.params.size();
    if (last && agreed_ && !has_samples)
      launch_through(buckets_.size());  // nothing more will arrive, and other ranks wait
  }

  const at::Tensor& running_sums() const {
    DTRAIN_CHECK(mode_ != Mode::kIdle && !(mode_ == Mode::kArmed && next_ == buckets_.size()),
                 "running_sums() belongs between arm() and backward.");
    return sums_;
  }

  void finish() {
    DTRAIN_CHECK(mode_ == Mode::kArmed, "finish() without arm(true).");
    times_.end(device());
    end_backward();
    check_arrivals();
    if (!agreed_) agree_on_parameters();
    launch_through(buckets_.size());
    for (FilledBucket& bucket : buckets_) bucket.transfer.receive();
    sums_work_.wait();
    if (gathers_) set_gradients(/*views=*/true);
    check_views();
    totals_.copy_(sums_);
    mode_ = Mode::kIdle;
    sampled_ = false;
  }

  void abandon() {
    for (FilledBucket& bucket : buckets_) bucket.transfer.abandon();
    sums_work_ = {};
    mode_ = Mode::kIdle;
    sampled_ = false;
    if (gathers_) set_gradients(/*views=*/false);
  }

  void begin_backward() {
    if (mode_ == Mode::kArmed) times_.begin(device());
  }

  // A micro-step may have reached a part of a bucket's parameters.
  void end_backward() {
    for (size_t i = 0; gathers_ && i < buckets_.size(); ++i) gather(buckets_[i]);
  }

  void zero() {
    std::vector<at::Tensor> all = flat_;
    all.push_back(sums_.view(flat_[0].scalar_type()));  // one type is one launch on a GPU
    at::_foreach_zero_(all);
    if (gathers_) set_gradients(/*views=*/false);
  }

  std::vector<at::Tensor> tensors() const {
    std::vector<at::Tensor> all = flat_;
    all.push_back(sums_);
    all.push_back(totals_);
    return all;
  }

  bool agreed() const { return agreed_; }

  size_t bucket_of(const at::Tensor& parameter) const {
    const auto found = index_of_.find(parameter.unsafeGetTensorImpl());
    return found == index_of_.end() ? 0 : bucket_of_[found->second];
  }

  // Of all buckets, and of the sums of loss and weight.
  int64_t sum(int64_t (BucketTransfer::*bytes_of)() const) const {
    auto bytes = static_cast<int64_t>(sums_.nbytes());
    for (const FilledBucket& bucket : buckets_) bytes += (bucket.transfer.*bytes_of)();
    return bytes;
  }

  std::vector<int64_t> bucket_bytes() const { return bucket_bytes_with(options_.cap_bytes); }
  std::vector<int64_t> bucket_bytes_with(int64_t cap_bytes) const {
    std::vector<int64_t> bytes;
    for (const Bucket& bucket : plan_buckets(infos_, cap_bytes, options_.first_bytes)) {
      bytes.push_back(bucket.elements *
                      wire_item_bytes(bucket.dtype, options_.wire, gradients_.size()));
    }
    return bytes;
  }

  std::vector<BucketTime> bucket_times() const {
    const std::vector<double> shares = times_.shares(buckets_.size());
    std::vector<BucketTime> times;
    for (size_t i = 0; i < shares.size(); ++i) {
      times.push_back({buckets_[i].transfer.wire_bytes(), shares[i]});
    }
    return times;
  }

  std::vector<at::Tensor> flat_;
  at::Tensor totals_;
  BackwardTimes times_;

 private:
  enum class Mode { kIdle, kAccumulating, kArmed };
  struct FilledBucket {
    BucketTransfer transfer;
    size_t pending = 0;  // parameters whose gradient of the last micro-step has not arrived yet
    std::vector<size_t> params = {};
  };

  void check_ranks_agree() {
    const auto mine = static_cast<int64_t>(fingerprint(all_, options_));
    const at::Tensor sent = at::full({1}, mine, at::kLong),
                     got = at::empty({host_.size()}, at::kLong);
    host_.all_gather(got, sent).wait();
    for (int rank = 1; rank < host_.size(); ++rank) {
      if (got[rank].item<int64_t>() == got[0].item<int64_t>()) continue;
      throw CommError(
          str("rank ", rank, " has another network, bucket size or wire than rank 0 (this is rank ",
              host_.rank(), " with ", all_.size(),
              " parameters). Start all ranks with the same program and configuration."));
    }
  }

  // Makes zeroed buckets over `chosen` (indices into all_), whose views become the gradients.
  void lay_out(const std::vector<size_t>& chosen) {
    const at::NoGradGuard no_grad;
    infos_.clear();
    for (const size_t i : chosen)
      infos_.push_back({all_[i].tensor.numel(), all_[i].tensor.scalar_type()});
    const std::vector<Bucket> plan = plan_buckets(infos_, options_.cap_bytes, options_.first_bytes);
    buckets_.clear();
    flat_.clear();
    views_.assign(all_.size(), at::Tensor());
    bucket_of_.assign(all_.size(), 0);
    for (const Bucket& bucket : plan) {
      FilledBucket filled{make_transfer(bucket)};
      const at::Tensor& buffer = filled.transfer.buffer();
      for (size_t k = 0; k < bucket.params.size(); ++k) {
        const size_t i = chosen[bucket.params[k]];
        const at::Tensor& tensor = all_[i].tensor;
        views_[i] = buffer.as_strided(tensor.sizes(), tensor.strides(),
                                      buffer.storage_offset() + bucket.offsets[k]);
        bucket_of_[i] = buckets_.size();
        filled.params.push_back(i);
      }
      flat_.push_back(buffer);
      buckets_.push_back(std::move(filled));
    }
    set_gradients(/*views=*/!gathers_);
  }

  // The gradients of the parameters in use become the views, or undefined.
  void set_gradients(bool views) {
    for (size_t i = 0; i < all_.size(); ++i) {
      if (views_[i].defined()) all_[i].tensor.mutable_grad() = views ? views_[i] : at::Tensor();
    }
  }

  // Where there is too little memory for a bucket, the error says how much all of them take.
  BucketTransfer make_transfer(const Bucket& bucket) {
    try {
      return {gradients_, bucket.elements,
              all_[0].tensor.options().dtype(bucket.dtype).requires_grad(false), options_.wire};
    } catch (const DeviceError& error) {
      int64_t bytes = 0;
      for (const int64_t other : bucket_bytes()) bytes += other;
      throw DeviceError(str(error.what(), ". The buckets of all gradients take ",
                            human_bytes(static_cast<double>(bytes)),
                            " on each rank; this was one of them"));
    }
  }

  // The hook of parameter i: backward has added to its gradient.
  void arrived(size_t i) {
    if (mode_ == Mode::kIdle) report(i, "received a gradient outside of a step, without arm()");
    if (!views_[i].defined())
      report(i, "received a gradient, though no rank used it at the first step");
    used_[i] = true;
    if (ready_[i]) {
      if (mode_ == Mode::kArmed)
        report(
            i,
            "received two gradients in one micro-step; its bucket may have left after the first");
      return;
    }
    ready_[i] = true;
    if (!views_[i].defined()) return;
    FilledBucket& bucket_of_this = buckets_[bucket_of_[i]];
    const bool full = --bucket_of_this.pending == 0;
    if (full && gathers_) gather(bucket_of_this);
    if (mode_ != Mode::kArmed || !agreed_) return;
    if (full && options_.track) note(trace::Kind::kReady, "ready", bucket_of_[i]);
    size_t filled = next_;
    while (filled < buckets_.size() && buckets_[filled].pending == 0) ++filled;
    for (size_t bucket = next_; bucket < filled; ++bucket)
      times_.ready(device(), bucket, buckets_.size());
    launch_through(filled);
  }

  // Adds the gradients that backward has left outside of the bucket.
  void gather(const FilledBucket& bucket) {
    std::vector<at::Tensor> views, arrived;
    for (const size_t i : bucket.params) {
      const at::Tensor& view = views_[i];
      at::Tensor& grad = all_[i].tensor.mutable_grad();
      if (!grad.defined() || grad.is_same(view)) continue;
      at::Tensor gradient = std::exchange(grad, at::Tensor());
      // Autograd keeps the parameter's strides, except those of dimensions of size 1. Tensors of
      // other strides would be added one by one.
      if (gradient.strides() != view.strides())
        gradient = gradient.as_strided(view.sizes(), view.strides());
      views.push_back(view);
      arrived.push_back(std::move(gradient));
    }
    if (views.empty()) return;
    const at::NoGradGuard no_grad;
    at::_foreach_add_(views, arrived);
  }

  // Sends the buckets before `end`, always in order, and the sums of loss and weight behind the
  // last one.
  void launch_through(size_t end) {
    for (; next_ < end; ++next_) {
      if (options_.track) note(trace::Kind::kSent, "sent", next_);
      buckets_[next_].transfer.send();
      if (next_ + 1 == buckets_.size()) sums_work_ = gradients_.all_reduce(sums_, ReduceOp::kSum);
    }
  }

  void note(trace::Kind kind, const char* what, size_t bucket) const {
    const trace::Time now = trace::now();
    options_.track->add({.name = what,
                         .begin = now,
                         .end = now,
                         .kind = kind,
                         .a = static_cast<int64_t>(bucket),
                         .b = buckets_[bucket].transfer.wire_bytes()});
  }

  void report(size_t i, std::string_view what) {
    if (problem_.empty())
      problem_ = str("parameter ", all_[i].name, " on rank ", gradients_.rank(), " ", what);
  }

  void check_arrivals() {
    if (agreed_ && has_samples_) {
      for (size_t i = 0; i < all_.size(); ++i) {
        if (views_[i].defined() && !ready_[i]) {
          report(i,
                 "received no gradient in the last micro-step, though it was in use at the first "
                 "step");
        }
      }
    }
    if (problem_.empty()) return;
    throw CommError(problem_ +
                    ". The network must use the same parameters, once per backward, in every step "
                    "on every rank.");
  }

  // In use from now on is what the backward passes of this step have reached on any rank.
  void agree_on_parameters() {
    const auto count = static_cast<int64_t>(all_.size());
    const at::Tensor mask = at::zeros({count + 1}, at::kLong);
    int64_t* flags = mask.data_ptr<int64_t>();
    for (int64_t i = 0; i < count; ++i) flags[i] = used_[i];
    flags[count] = sampled_;
    host_.all_reduce(mask, ReduceOp::kMax).wait();
    if (flags[count] == 0) return;  // no sample on any rank: ask again at the next step
    agreed_ = true;
    std::vector<size_t> chosen;
    std::vector<std::string> unused;
    for (size_t i = 0; i < all_.size(); ++i) {
      if (flags[i] != 0) {
        chosen.push_back(i);
      } else {
        unused.push_back(all_[i].name);
      }
    }
    if (chosen.empty())
      throw Error("no parameter received a gradient: the loss does not depend on the network");
    if (unused.empty()) return;
    if (host_.rank() == 0 && options_.name_unused) {
      log::warning(str(unused.size(), " of ", all_.size(),
                       " parameters receive no gradient and stay unchanged: ", join(unused, ", ")));
    }
    keep_only(chosen);
  }

  // Lays the buckets out again, with the gradients of this step.
  void keep_only(const std::vector<size_t>& chosen) {
    const std::vector<at::Tensor> filled = views_;
    for (const auto& parameter : all_) parameter.tensor.mutable_grad() = at::Tensor();
    lay_out(chosen);
    for (const size_t i : chosen) views_[i].copy_(filled[i]);
  }

  // If a gradient is no longer the view, backward has added to it elsewhere, and what was sent
  // is wrong.
  void check_views() const {
    for (size_t i = 0; i < all_.size(); ++i) {
      if (!views_[i].defined()) continue;
      const at::Tensor& grad = all_[i].tensor.mutable_grad();
      const bool intact = grad.defined() && grad.data_ptr() == views_[i].data_ptr() &&
                          grad.strides() == views_[i].strides();
      DTRAIN_CHECK(intact, "The gradient of ", all_[i].name,
                   " was replaced (by zero_grad or set_data?); zero() clears gradients.");
    }
  }

  at::Device device() const { return all_[0].tensor.device(); }

  const std::vector<NamedParameter> all_;
  std::vector<ParamInfo> infos_;  // only the parameters in the buckets
  Communicator& gradients_;
  Communicator& host_;
  const Options options_;
  bool gathers_ = false;
  std::vector<FilledBucket> buckets_;
  std::vector<at::Tensor> views_;  // one per parameter: gradient in a bucket; undefined: unused
  std::vector<size_t> bucket_of_;  // one per parameter: index of its bucket
  std::unordered_map<const at::TensorImpl*, size_t> index_of_;  // a parameter's index in all_
  std::vector<bool> used_, ready_;  // one per parameter: ever reached; reached in this micro-step
  at::Tensor sums_;                 // two elements: sum of the loss, sum of the weight
  Work sums_work_;
  Mode mode_ = Mode::kIdle;
  // This micro-step; any of this optimizer step
  bool agreed_ = false, has_samples_ = false, sampled_ = false;
  size_t next_ = 0;      // bucket to be sent next
  std::string problem_;  // the first deviation, thrown by finish(): an exception must not cross
                         // autograd's threads
};

GradientReducer::GradientReducer(std::vector<NamedParameter> parameters, Communicator& gradients,
                                 Communicator& host, Options options)
    : impl_(std::make_unique<Impl>(std::move(parameters), gradients, host, options)) {}
GradientReducer::~GradientReducer() = default;
void GradientReducer::arm(bool last_micro_step, bool has_samples) {
  impl_->arm(last_micro_step, has_samples);
}
const at::Tensor& GradientReducer::running_sums() const { return impl_->running_sums(); }
void GradientReducer::begin_backward() { impl_->begin_backward(); }
void GradientReducer::end_backward() { impl_->end_backward(); }
void GradientReducer::finish() { impl_->finish(); }
void GradientReducer::abandon() { impl_->abandon(); }
void GradientReducer::zero() { impl_->zero(); }
size_t GradientReducer::bucket_of(const at::Tensor& parameter) const {
  return impl_->bucket_of(parameter);
}
std::vector<at::Tensor> GradientReducer::tensors() const { return impl_->tensors(); }
const std::vector<at::Tensor>& GradientReducer::flat() const { return impl_->flat_; }
at::Tensor GradientReducer::loss_sum() const { return impl_->totals_.select(0, 0); }
at::Tensor GradientReducer::weight_sum() const { return impl_->totals_.select(0, 1); }
int64_t GradientReducer::bytes_per_step() const { return impl_->sum(&BucketTransfer::wire_bytes); }
int64_t GradientReducer::memory_bytes() const { return impl_->sum(&BucketTransfer::memory_bytes); }
const BackwardTimes& GradientReducer::backward_times() const { return impl_->times_; }
void GradientReducer::forget_backward_times() { impl_->times_.reset(); }
bool GradientReducer::agreed() const { return impl_->agreed(); }
void GradientReducer::time_buckets(bool on) { impl_->times_.note_all(on); }
std::vector<BucketTime> GradientReducer::bucket_times() const { return impl_->bucket_times(); }
std::vector<int64_t> GradientReducer::bucket_bytes() const { return impl_->bucket_bytes(); }
std::vector<int64_t> GradientReducer::bucket_bytes_with(int64_t cap_bytes) const {
  return impl_->bucket_bytes_with(cap_bytes);
}

}  // namespace dtrain::dist
