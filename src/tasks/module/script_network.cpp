#include "tasks/module/script_network.h"

#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include <set>
#include <string_view>

#include "checkpoint/pickle_file.h"
#include "core/error.h"
#include "device/device.h"
#include "tasks/module/recurrent_weights.h"
#include "text/library_text.h"
#include "text/strings.h"

namespace dtrain::tasks {
namespace {

using Seen = std::set<const at::TensorImpl*>;

// Copies the script's tree of modules. A tensor in two places (tied weights) is registered once, at
// the first.
void mirror(const torch::jit::Module& script, torch::nn::Module& node, Seen& seen) {
  for (const auto& item : script.named_parameters(/*recurse=*/false)) {
    if (seen.insert(item.value.unsafeGetTensorImpl()).second) {
      node.register_parameter(item.name, item.value, item.value.requires_grad());
    }
  }
  for (const auto& item : script.named_buffers(/*recurse=*/false)) {
    if (seen.insert(item.value.unsafeGetTensorImpl()).second)
      node.register_buffer(item.name, item.value);
  }
  for (const auto& child : script.named_children()) {
    const auto below = std::make_shared<torch::nn::Module>(child.name);
    mirror(child.value, *below, seen);
    node.register_module(child.name, below);
  }
}

// `what`: LibTorch's message. It helps the user where it is about the code, but not where it is
// about the archive.
std::string why_not(const std::filesystem::path& file, const std::string& what) {
  using checkpoint::Pickle;
  const Pickle kind = checkpoint::pickle_of(file);
  const std::string message = torch_message(what);
  const bool about_code = kind == Pickle::kZip && !message.starts_with("PytorchStreamReader");
  const std::string text =
      str(file.string(), " is not a TorchScript file", about_code ? " (" + message + ")" : "",
          ": save it with torch.jit.script(network).save(\"FILE.pt\")");
  // torch.save writes such an archive too, but without the constants of code.
  const bool is_saved = kind == Pickle::kPlain || what.find("constants.pkl") != std::string::npos;
  return is_saved ? text +
                        ". torch.save, which wrote this file, stores weights without the code of "
                        "the network"
                  : text;
}

// Loading onto a GPU would also put constants of the code there, which nothing moves later.
std::unique_ptr<torch::jit::Module> load_on_cpu(const std::filesystem::path& file) {
  return std::make_unique<torch::jit::Module>(torch::jit::load(file.string(), at::kCPU));
}

std::string words_of(const std::exception& error) {
  const auto* own = dynamic_cast<const c10::Error*>(&error);
  return own != nullptr ? own->what_without_backtrace() : error.what();
}

// Functions and classes of torch.cuda, which code may name if only for GPUs, come with the
// operators of GPUs.
bool names_cuda(std::string_view words) {
  return words.find("cuda::") != words.npos || words.find(".cuda.") != words.npos;
}

std::unique_ptr<torch::jit::Module> load_script(const std::filesystem::path& file) {
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(file, code);
  if (!std::filesystem::is_regular_file(status)) {
    throw DataError(str(file.string(), ": ",
                        std::filesystem::exists(status) ? "it is not a regular file"
                        : std::filesystem::status_known(status)
                            ? "there is no such TorchScript file"
                            : code.message(),
                        " (model.file)"));
  }
  try {
    try {
      return load_on_cpu(file);
    } catch (const std::exception& error) {
      if (!names_cuda(words_of(error))) throw;
    }
    device::load_gpu_operators();
    return load_on_cpu(file);
  } catch (const DeviceError&) {
    throw;
  } catch (const std::exception& error) {
    throw DataError(why_not(file, words_of(error)));
  }
}

std::string name_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kLong:
      return "int64";
    default:
      return c10::toString(type);
  }
}

// "float32 [3, 60] with values from 0 to 31999": what forward() got, for a message.
std::string described(const at::Tensor& tensor) {
  std::string text = str(name_of(tensor.scalar_type()), " ", shape_text(tensor.sizes()));
  try {
    if (tensor.numel() == 0) return text;
    const auto [least, largest] = tensor.detach().aminmax();
    text += str(" with values from ", least.item<double>(), " to ", largest.item<double>());
  } catch (const std::exception&) {
    // A GPU that has failed tells no values.
  }
  return text;
}

// LibTorch 2.11's interpreter throws what an operator throws as a std::runtime_error with the same
// text, that of 2.15 as it is. As an error of LibTorch it is treated as that of any network: a full
// GPU, for example.
torch::jit::IValue run(torch::jit::Module& script, const std::vector<at::Tensor>& inputs) {
  try {
    return script.forward({inputs.begin(), inputs.end()});
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::AcceleratorError&) {
    throw;
  } catch (const std::exception& error) {
    std::vector<std::string> given;
    for (const at::Tensor& input : inputs) given.push_back(described(input));
    const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
    const char* what = of_torch == nullptr ? error.what() : of_torch->what_without_backtrace();
    TORCH_CHECK(false, what, "\n", kScriptGot, join(given, " and "), "\n");
  }
}

}  // namespace

ScriptNetwork::ScriptNetwork(const std::filesystem::path& file)
    : torch::nn::Module("torchscript"), script_(load_script(file)) {
  if (!script_->find_method("forward")) throw DataError(str(file.string(), " has no forward()"));
  Seen seen;
  mirror(*script_, *this, seen);
}

ScriptNetwork::~ScriptNetwork() = default;

at::Tensor ScriptNetwork::forward(const std::vector<at::Tensor>& inputs) {
  const torch::jit::GraphOptimizerEnabledGuard interpreter_only(false);
  const torch::jit::IValue output = run(*script_, inputs);
  if (!output.isTensor()) {
    throw DataError(str("forward() returns ", output.tagKind(), "; it must return one tensor"));
  }
  return output.toTensor();
}

ScriptNetwork::Arguments ScriptNetwork::arguments() const {
  Arguments found{.required = -1, .most = -1};  // itself
  for (const auto& argument : script_->get_method("forward").function().getSchema().arguments()) {
    found.required += argument.default_value() ? 0 : 1;
    found.most += 1;
  }
  return found;
}

void ScriptNetwork::train(bool on) {
  torch::nn::Module::train(on);
  script_->train(on);
}

void ScriptNetwork::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  torch::nn::Module::to(device, dtype, non_blocking);
  flatten_recurrent_weights(*this);
}

void ScriptNetwork::to(torch::Device device, bool non_blocking) {
  torch::nn::Module::to(device, non_blocking);
  flatten_recurrent_weights(*this);
}

}  // namespace dtrain::tasks
