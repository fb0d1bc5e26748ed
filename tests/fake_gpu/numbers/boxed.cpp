#include "numbers/boxed.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <ATen/cuda/CUDAGraphsUtils.cuh>

#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "numbers/compute.h"

namespace fake_gpu {
namespace {

using c10::IValue;
using torch::jit::Stack;
using Map = std::function<at::Tensor(const at::Tensor&)>;

// What stays LibTorch's: operators that allocate and view, and copies between host and GPU, which
// the runtime does.
const std::set<std::string>& kept() {
  static const auto* names = new std::set<std::string>{"aten::empty",
                                                       "aten::empty_strided",
                                                       "aten::resize_",
                                                       "aten::as_strided",
                                                       "aten::view",
                                                       "aten::_reshape_alias",
                                                       "aten::record_stream",
                                                       "aten::unfold",
                                                       "aten::is_pinned",
                                                       "aten::_pin_memory",
                                                       "aten::set_",
                                                       "aten::alias",
                                                       "aten::view_as_real",
                                                       "aten::view_as_complex",
                                                       "aten::_efficientzerotensor",
                                                       "aten::copy_",
                                                       "aten::_local_scalar_dense"};
  return *names;
}

// Operators without a kernel for `meta` in C++, whose results have the same shapes for all numbers.
const std::set<std::string>& shaped_by_sizes() {
  static const auto* names = new std::set<std::string>{"aten::abs",
                                                       "aten::bucketize",
                                                       "aten::floor_divide",
                                                       "aten::hardtanh",
                                                       "aten::hardtanh_backward",
                                                       "aten::index_select",
                                                       "aten::logical_and",
                                                       "aten::logical_not",
                                                       "aten::max",
                                                       "aten::mse_loss_backward",
                                                       "aten::relu",
                                                       "aten::where"};
  return *names;
}

// A name that lives until the process ends.
const char* lasting(const std::string& name) {
  static auto* mutex = new std::mutex;
  static auto* names = new std::set<std::string>;
  const std::lock_guard lock(*mutex);
  return names->insert(name).first->c_str();
}

IValue mapped(const IValue& value, const Map& map, at::DeviceType device) {
  if (value.isTensor()) return map(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(map(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      list.push_back(tensor.has_value() ? std::optional(map(*tensor)) : std::nullopt);
    return list;
  }
  if (value.isDevice() && value.toDevice().is_cuda()) return c10::Device(device);
  if (value.isGenerator() && value.toGenerator().defined() &&
      value.toGenerator().device().is_cuda()) {
    return IValue();
  }
  return value;
}

at::Tensor host_view(const at::Tensor& tensor) { return on_host(tensor); }

std::vector<at::Tensor> tensors_of(const IValue& value) {
  if (value.isTensor()) return {value.toTensor()};
  if (value.isTensorList()) return value.toTensorVector();
  return {};
}

at::Tensor to_meta(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return tensor;
  if (tensor.is_cpu() && tensor.dim() == 0) return tensor;
  return at::empty_strided(tensor.sizes(), tensor.strides(),
                           tensor.options().device(at::kMeta).requires_grad(false));
}

at::Tensor to_zeros(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_cpu()) return tensor;
  return at::zeros_like(on_host(tensor));
}

// The CPU's tensors may change before the work is done.
at::Tensor kept_for_later(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_cuda()) return on_host(tensor);
  return tensor.unsafeGetTensorImpl()->is_wrapped_number() ? tensor : tensor.clone();
}

class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack* stack)
      : op_(op),
        schema_(op.schema()),
        name_(lasting(schema_.name())),
        stack_(stack),
        inputs_(stack->end() - static_cast<std::ptrdiff_t>(schema_.arguments().size()),
                stack->end()) {
    stack->resize(stack->size() - inputs_.size());
    for (const IValue& input : inputs_) {
      for (const at::Tensor& tensor : tensors_of(input))
        if (tensor.defined() && tensor.is_cuda()) device_ = tensor.device();
      if (input.isDevice() && input.toDevice().is_cuda()) device_ = input.toDevice();
    }
    if (!device_.has_index()) device_.set_index(c10::cuda::current_device());
  }

  void run() {
    if (op_.hasTag(at::Tag::nondeterministic_seeded)) check_generator();
    if (!allocate()) return run_now();
    Stack host;
    for (const IValue& input : inputs_) host.push_back(mapped(input, kept_for_later, at::kCPU));
    std::vector<IValue> out;
    for (size_t i = 0; i < results_.size(); ++i)
      out.push_back(is_input(i) ? IValue() : mapped(results_[i], host_view, at::kCPU));
    compute(device_, name_, [op = op_, host = std::move(host), out = std::move(out)] {
      Stack stack = host;
      op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
      for (size_t i = 0; i < out.size(); ++i) {
        const std::vector<at::Tensor> to = tensors_of(out[i]), from = tensors_of(stack[i]);
        for (size_t k = 0; k < to.size(); ++k)
          if (to[k].defined()) to[k].copy_(from.at(k));
      }
    });
    for (IValue& result : results_) stack_->push_back(std::move(result));
  }

 private:
  // The numbers come from the CPU's generator, but a capture has only those of LibTorch's
  // generators for this GPU that the graph knows.
  void check_generator() const {
    const c10::cuda::CUDAGuard guard(device_);
    if (at::cuda::currentStreamCaptureStatus() == at::cuda::CaptureStatus::None) return;
    std::optional<at::Generator> given;
    for (const IValue& input : inputs_)
      if (input.isGenerator()) given = input.toGenerator();
    auto* generator = at::get_generator_or_default<at::CUDAGeneratorImpl>(
        given, at::cuda::detail::getDefaultCUDAGenerator(device_.index()));
    const std::lock_guard lock(generator->mutex_);
    generator->philox_cuda_state(4);
  }

  const c10::AliasInfo* alias_of(size_t result) const {
    return schema_.returns()[result].alias_info();
  }
  bool is_input(size_t result) const {
    return alias_of(result) != nullptr && alias_of(result)->isWrite();
  }
  const IValue& input_of(size_t result) const {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const c10::AliasInfo* alias = schema_.arguments()[i].alias_info();
      if (alias != nullptr && alias->isWrite() &&
          alias->beforeSet() == alias_of(result)->beforeSet())
        return inputs_[i];
    }
    TORCH_CHECK(false, "fake GPU: ", name_, " returns what is no argument");
  }

  // Whether all that it returns are arguments, which keep their shape.
  bool is_in_place() const {
    const std::string& overload = schema_.overload_name();
    const bool resizes = overload.find("out") != std::string::npos;
    for (size_t i = 0; i < schema_.returns().size(); ++i)
      if (!is_input(i)) return false;
    return !resizes;
  }

  // Makes what the operator returns; false: its shape is not known before the work is done.
  bool allocate() {
    if (is_in_place()) {
      for (size_t i = 0; i < schema_.returns().size(); ++i) results_.push_back(input_of(i));
      return true;
    }
    Shapes shapes;
    const bool known = find_shapes(c10::DispatchKey::Meta, at::kMeta, to_meta, shapes) ||
                       (shaped_by_sizes().contains(schema_.name()) &&
                        find_shapes(c10::DispatchKey::CPU, at::kCPU, to_zeros, shapes));
    if (!known) return false;
    for (size_t i = 0; i < inputs_.size(); ++i) resize(i, shapes.arguments[i]);
    for (size_t i = 0; i < shapes.results.size(); ++i) {
      results_.push_back(is_input(i) ? input_of(i) : mapped(shapes.results[i], like(), at::kCUDA));
    }
    return true;
  }

  struct Shapes {
    Stack arguments = {}, results = {};  // after the call
  };

  // By a call with tensors that `map` makes of the inputs; false: there is no kernel, or it
  // refuses. The CPU's kernel says why, if the call is wrong.
  bool find_shapes(c10::DispatchKey key, at::DeviceType device, const Map& map,
                   Shapes& shapes) const {
    if (!op_.hasComputedKernelForDispatchKey(key)) return false;
    Stack stack;
    for (const IValue& input : inputs_) stack.push_back(mapped(input, map, device));
    shapes.arguments = stack;
    try {
      const at::AutoDispatchBelowADInplaceOrView no_autograd;
      const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
      op_.redispatchBoxed(c10::DispatchKeySet(key), &stack);
    } catch (const std::exception&) {
      return false;
    }
    for (const IValue& result : stack)
      if (!result.isTensor() && !result.isTensorList()) return false;
    shapes.results = std::move(stack);
    return true;
  }

  // An argument to write to, which had another shape.
  void resize(size_t input, const IValue& meta) {
    const c10::AliasInfo* alias = schema_.arguments()[input].alias_info();
    if (alias == nullptr || !alias->isWrite()) return;
    const std::vector<at::Tensor> are = tensors_of(inputs_[input]), become = tensors_of(meta);
    for (size_t k = 0; k < are.size(); ++k) {
      if (!are[k].defined() || are[k].sizes() == become[k].sizes()) continue;
      are[k].resize_(become[k].sizes());
      are[k].unsafeGetTensorImpl()->set_sizes_and_strides(become[k].sizes(), become[k].strides());
    }
  }

  // A tensor on the GPU of the same shape.
  Map like() const {
    return [device = device_](const at::Tensor& tensor) {
      if (!tensor.defined()) return tensor;
      return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(device));
    };
  }

  void run_now() {
    try {
      finish_stream(device_);
    } catch (const c10::Error& error) {
      TORCH_CHECK(false, "fake GPU: ", name_, ": ", error.what_without_backtrace());
    }
    Stack stack;
    for (const IValue& input : inputs_) stack.push_back(mapped(input, host_view, at::kCPU));
    const Stack arguments = stack;
    {
      const at::AutoDispatchBelowADInplaceOrView no_autograd;
      const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
      op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
    }
    compute(device_, name_, [] {});  // counts as a launch
    for (size_t i = 0; i < inputs_.size(); ++i) take_resized(i, arguments[i]);
    const Map copied = [this](const at::Tensor& tensor) {
      if (!tensor.defined()) return tensor;
      const at::Tensor out = like()(tensor);
      write_now(out, tensor);
      return out;
    };
    for (size_t i = 0; i < stack.size(); ++i)
      stack_->push_back(is_input(i) ? input_of(i) : mapped(stack[i], copied, at::kCUDA));
  }

  // An argument that the CPU's kernel has given another shape, and other memory.
  void take_resized(size_t input, const IValue& host) {
    resize(input, host);
    const std::vector<at::Tensor> are = tensors_of(inputs_[input]), become = tensors_of(host);
    for (size_t k = 0; k < become.size(); ++k) {
      if (!are[k].defined() || !are[k].is_cuda() || are[k].numel() == 0) continue;
      if (are[k].data_ptr() != become[k].data_ptr()) write_now(are[k], become[k]);
    }
  }

  // The allocator may have had the memory back while it was asked for this one: what its stream
  // still does to it comes first.
  void write_now(const at::Tensor& to, const at::Tensor& from) const {
    finish_stream(device_);
    on_host(to).copy_(from);
  }

  const c10::OperatorHandle op_;
  const c10::FunctionSchema& schema_;
  const char* name_;
  Stack* stack_;
  std::vector<IValue> inputs_, results_;
  c10::Device device_{at::kCUDA};
};

}  // namespace

void compute_boxed(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  Call(op, stack).run();
}

bool can_be_boxed(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  const bool allocates = kept().contains(schema.name()) &&
                         (schema.overload_name() != "out" || schema.name() == "aten::empty");
  if (!schema.name().starts_with("aten::") || allocates) return false;
  for (const c10::Argument& result : schema.returns())
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return false;
  return op.hasKernelForDispatchKey(c10::DispatchKey::CUDA) &&
         op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
}

}  // namespace fake_gpu
