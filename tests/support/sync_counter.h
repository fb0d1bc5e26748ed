#pragma once

// Finds, on the CPU, the operations that would make the host wait for a GPU: those that read a
// value of a tensor, those whose result has a size that depends on values, and copies to the host
// that are not asynchronous. On the CPU a copy to the training's device looks like one to the host;
// the code copies to its device asynchronously, so the two differ. A copy into a tensor of the
// host, host.copy_(device), cannot be seen on the CPU: there it is like every other copy_. Counts
// what the calling thread runs, backward too. (A test on a GPU asks CUDA
// itself: step_sync_gpu_test.cpp.)

#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::testing {

class SyncCounter {
 public:
  SyncCounter() {
    current() = this;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&enter, &leave)
                                             .needsInputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  ~SyncCounter() {
    at::removeCallback(handle_);
    current() = nullptr;
  }
  SyncCounter(const SyncCounter&) = delete;
  SyncCounter& operator=(const SyncCounter&) = delete;

  int64_t calls() const { return calls_; }  // of operators, to see that something was observed
  // "aten::index > aten::nonzero": the operator, after those that called it.
  const std::vector<std::string>& found() const { return found_; }

 private:
  // Their kernels for the CPU read a tensor of one number, and those for a GPU do not.
  static bool reads_on_the_cpu_alone(const std::string& name) {
    static constexpr std::array<std::string_view, 5> kNames = {
        "aten::_fused_adamw_", "aten::_fused_adam_", "aten::_fused_sgd_",
        "aten::_amp_update_scale_", "aten::_amp_foreach_non_finite_check_and_unscale_"};
    return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
  }

  // `inside_operator`: an ATen operator runs the call. There, to() changes the type on the device
  // of the tensor.
  static bool waits(const at::RecordFunction& call, bool inside_operator) {
    static constexpr std::array<std::string_view, 14> kNames = {"aten::_local_scalar_dense",
                                                                "aten::item",
                                                                "aten::is_nonzero",
                                                                "aten::nonzero",
                                                                "aten::masked_select",
                                                                "aten::equal",
                                                                "aten::_unique",
                                                                "aten::_unique2",
                                                                "aten::unique_dim",
                                                                "aten::unique_consecutive",
                                                                "aten::unique_dim_consecutive",
                                                                "aten::allclose",
                                                                "aten::bincount",
                                                                "aten::tolist"};
    const std::string_view name = call.name();
    if (std::find(kNames.begin(), kNames.end(), name) != kNames.end()) return true;
    return (name == "aten::to" && !inside_operator && copies_to_host(call.inputs())) ||
           (name == "aten::repeat_interleave" && sums_repeats(call.inputs()));
  }

  // repeat_interleave(repeats, output_size), repeat_interleave(self, repeats, dim, output_size):
  // without its size, the result is as long as the sum of a tensor of repeats.
  static bool sums_repeats(c10::ArrayRef<const c10::IValue> inputs) {
    const bool by_tensor = inputs.size() == 2 || (inputs.size() == 4 && inputs[1].isTensor());
    return by_tensor && inputs.back().isNone();
  }

  // to(self, device, dtype, non_blocking, ...), to(self, dtype, layout, device, pin_memory,
  // non_blocking, ...)
  static bool copies_to_host(c10::ArrayRef<const c10::IValue> inputs) {
    const auto to = [&](size_t device, size_t non_blocking) {
      return inputs.size() > non_blocking && inputs[device].isDevice() &&
             inputs[device].toDevice().is_cpu() && inputs[non_blocking].isBool() &&
             !inputs[non_blocking].toBool();
    };
    return to(1, 3) || to(3, 5);
  }

  static std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& call) {
    SyncCounter* self = current();
    const std::string name = call.name();
    ++self->calls_;
    const bool expected =
        std::any_of(self->open_.begin(), self->open_.end(), reads_on_the_cpu_alone);
    // item() is counted once, not again as what it calls
    const bool counted = !self->open_.empty() && self->open_.back() == "aten::item";
    const bool inside_operator = !self->open_.empty() && self->open_.back().starts_with("aten::");
    if (!expected && !counted && waits(call, inside_operator)) {
      std::string path;
      for (const std::string& outer : self->open_) path += outer + " > ";
      self->found_.push_back(path + name);
    }
    self->open_.push_back(name);
    return nullptr;
  }

  static void leave(const at::RecordFunction&, at::ObserverContext*) {
    if (!current()->open_.empty()) current()->open_.pop_back();
  }

  static SyncCounter*& current() {
    static thread_local SyncCounter* counter = nullptr;
    return counter;
  }

  at::CallbackHandle handle_ = 0;
  int64_t calls_ = 0;
  std::vector<std::string> open_;
  std::vector<std::string> found_;
};

}  // namespace dtrain::testing
