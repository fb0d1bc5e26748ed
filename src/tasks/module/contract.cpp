#include "tasks/module/contract.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/script.h>

#include <algorithm>
#include <set>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/strings.h"

namespace dtrain::tasks {
namespace {

// Unlike the batch sizes that are usual for tracing, so that a fixed batch size is noticed.
constexpr int64_t kSamples = 3;

// TorchScript's messages contain pages of code; the last line is the reason.
std::string gist(const std::exception& error) {
  const auto* own = dynamic_cast<const c10::Error*>(&error);
  std::string last;
  for (const std::string& line : split(own != nullptr ? own->what_without_backtrace() : error.what(), '\n')) {
    if (line.find_first_not_of(" \t") != std::string::npos) last = line;
  }
  return last;
}

// What the code of forward() contains that does not move with the module.
struct BakedIn {
  std::set<std::string> devices;    // "cpu", "cuda:0"
  std::set<std::string> constants;  // "Float [3, 4]"; without zero-dimensional ones, which work on any device
  std::set<std::string> random;     // "aten::dropout"
};

void read(const torch::jit::Block& block, BakedIn& baked) {
  for (const torch::jit::Node* node : block.nodes()) {
    for (const torch::jit::Block* inner : node->blocks()) read(*inner, baked);
    const std::string kind = node->kind().toQualString();
    for (const char* random : {"dropout", "bernoulli", "rand", "normal", "multinomial", "rrelu"}) {
      if (kind.starts_with("aten::") && kind.find(random) != std::string::npos) baked.random.insert(kind);
    }
    if (node->kind() != c10::prim::Constant || !node->hasAttribute(c10::attr::value)) continue;
    if (node->output()->type()->kind() == c10::TypeKind::DeviceObjType) {
      baked.devices.insert(node->s(c10::attr::value));
    } else if (node->kindOf(c10::attr::value) == torch::jit::AttributeKind::t) {
      const at::Tensor constant = node->t(c10::attr::value);
      if (constant.dim() > 0)
        baked.constants.insert(dtrain::str(c10::toString(constant.scalar_type()), " ", constant.sizes()));
    }
  }
}

BakedIn baked_in(const torch::jit::Module& script) {
  // A copy in which calls of submodules and functions (such as torch.nn.functional.dropout) are inlined.
  const std::shared_ptr<torch::jit::Graph> graph = script.get_method("forward").graph()->copy();
  torch::jit::Inline(*graph);
  BakedIn baked;
  read(*graph->block(), baked);
  return baked;
}

std::vector<int64_t> with_batch(int64_t samples, std::vector<int64_t> shape) {
  shape.insert(shape.begin(), samples);
  return shape;
}

std::vector<at::Tensor> made_up_inputs(const Trial& trial, int64_t samples) {
  std::vector<at::Tensor> inputs = {at::randn(with_batch(samples, trial.input))};
  if (trial.lengths) {  // of all lengths from half to full
    const int64_t longest = trial.input.front();
    inputs.push_back(longest - at::arange(samples, at::kLong) % std::max<int64_t>(1, longest / 2));
  }
  return inputs;
}

at::Tensor made_up_targets(const Trial& trial, int64_t samples) {
  std::vector<int64_t> shape = with_batch(samples, trial.target->shape);
  for (int64_t& size : shape) size = size == data::kVariable ? trial.input.front() : size;
  return trial.target->element == data::Element::kInt64 ? at::zeros(shape, at::kLong) : at::rand(shape);
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return dtrain::str("[",
                     join(
                         [&] {
                           std::vector<std::string> parts{"samples"};
                           for (const int64_t size : shape) parts.push_back(dtrain::str(size));
                           return parts;
                         }(),
                         ", "),
                     "]");
}

std::string listed(std::vector<std::string> names) {
  constexpr size_t kMost = 20;
  const size_t more = names.size() > kMost ? names.size() - kMost : 0;
  if (more > 0) names.resize(kMost);
  return join(names, ", ") + (more > 0 ? dtrain::str(" and ", more, " more") : "");
}

// One forward and backward pass like a training step, and a forward pass of a single sample, as in an evaluation.
void try_out(ScriptNetwork& network, const Trial& trial, const ModuleLoss& loss, Contract& contract) {
  network.train();
  const at::Tensor output = network.forward(made_up_inputs(trial, kSamples));
  contract.facts.push_back(dtrain::str("output      ", c10::toString(output.scalar_type()), " ", output.sizes(),
                                       " for ", kSamples, " samples of ", shape_text(trial.input)));
  if (output.dim() < 1 || output.size(0) != kSamples) {
    contract.defects.push_back(dtrain::str("the output ", output.sizes(), " does not begin with one entry for each of ",
                                           kSamples, " samples"));
    return;
  }
  const at::Tensor targets = trial.target ? made_up_targets(trial, kSamples) : at::Tensor();
  const std::string mismatch = trial.target ? loss.mismatch(output, targets) : "";
  if (!mismatch.empty()) contract.defects.push_back(mismatch);
  if (!mismatch.empty() && !output.is_floating_point()) return;  // it has no gradient either
  const bool with_loss = trial.target && mismatch.empty();
  if (with_loss && loss.classifies()) contract.classes = output.size(1);
  const at::Tensor sum = with_loss ? loss(output, targets).sum : output.to(at::kDouble).square().sum();
  if (!sum.requires_grad()) {
    contract.defects.push_back("the output does not depend on any trainable parameter");
    return;
  }
  sum.backward();
  std::vector<std::string> unused;
  for (const auto& parameter : network.named_parameters()) {
    if (parameter.value().requires_grad() && !parameter.value().grad().defined()) unused.push_back(parameter.key());
  }
  if (!unused.empty()) contract.warnings.push_back("unused parameters, which are not trained: " + listed(unused));

  network.eval();
  const at::NoGradGuard no_grad;
  const at::Tensor one = network.forward(made_up_inputs(trial, 1));
  if (one.dim() < 1 || one.size(0) != 1) {
    contract.defects.push_back(
        dtrain::str("one sample alone gives an output ", one.sizes(), ": the batch size is fixed in the code"));
  }
}

void count_parameters(const ScriptNetwork& network, Contract& contract) {
  int64_t elements = 0, tensors = 0, frozen = 0;
  for (const at::Tensor& parameter : network.parameters()) {
    ++(parameter.requires_grad() ? tensors : frozen);
    elements += parameter.requires_grad() ? parameter.numel() : 0;
  }
  std::vector<std::string> buffers;
  for (const auto& buffer : network.named_buffers()) buffers.push_back(buffer.key());
  contract.facts.push_back(dtrain::str("parameters  ", human_count(elements), " in ", tensors, " tensors",
                                       frozen > 0 ? dtrain::str(", and ", frozen, " frozen tensors") : ""));
  contract.facts.push_back("buffers     " +
                           (buffers.empty() ? "none" : dtrain::str(buffers.size(), ": ", listed(buffers))));
  for (const auto& state : {network.named_parameters(), network.named_buffers()}) {
    for (const auto& item : state) {
      if (!checkpoint::can_hold(item.value().scalar_type())) {
        contract.defects.push_back(dtrain::str("'", item.key(), "' is ", c10::toString(item.value().scalar_type()),
                                               ", which checkpoints cannot store: use float or int64"));
      }
    }
  }
  if (tensors == 0) {
    contract.defects.push_back(
        "no trainable parameters: a traced function, or a module after torch.jit.freeze, cannot be trained");
  }
}

// Whether the code can run on the CPU, as far as its devices are concerned.
bool judge(const BakedIn& baked, at::Device device, Contract& contract) {
  const bool gpu = device.is_cuda();
  bool runs_here = true;
  for (const std::string& name : baked.devices) {
    const bool on_gpu = name.starts_with("cuda");
    runs_here = runs_here && !on_gpu;
    if (on_gpu != gpu) {
      contract.defects.push_back(
          dtrain::str("the device '", name, "' is fixed in the code, but the training is on ", device,
                      ": use the device of an input (x.device, torch.zeros_like), and save it again"));
    } else {
      contract.warnings.push_back(
          dtrain::str("the device '", name, "' is fixed in the code: it can train on that device only"));
    }
  }
  for (const std::string& constant : baked.constants) {
    (gpu ? contract.defects : contract.warnings)
        .push_back(dtrain::str("a constant tensor ", constant,
                               " is in the code and does not move with the module: register it as a buffer"));
  }
  if (!baked.random.empty()) {
    contract.facts.push_back(dtrain::str("random      ", listed({baked.random.begin(), baked.random.end()}),
                                         ": drawn by the code itself, so they depend on the number of ranks"));
  }
  return runs_here;
}

}  // namespace

Contract examine(const std::filesystem::path& file, const std::vector<Trial>& trials, const ModuleLoss& loss) {
  Contract contract;
  ScriptNetwork network(file);
  count_parameters(network, contract);
  const ScriptNetwork::Arguments arguments = network.arguments();
  const bool runs_here = judge(baked_in(network.script()), trials.front().device, contract);
  if (!runs_here || !contract.defects.empty()) return contract;  // further defects would be consequences

  const at::Generator generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor state = generator.get_state();
  std::string failure;
  for (const Trial& trial : trials) {
    const int64_t given = trial.lengths ? 2 : 1;
    if (!arguments.accept(given)) {
      const std::string most = arguments.most > arguments.required ? dtrain::str(" to ", arguments.most) : "";
      failure = dtrain::str("forward() takes ", arguments.required, most, " arguments, but task.inputs passes ", given);
      continue;
    }
    const Contract before = contract;
    try {
      try_out(network, trial, loss, contract);
      failure.clear();
    } catch (const std::exception& error) {
      contract = before;
      failure = dtrain::str("forward or backward fails on ", kSamples, " samples of ", shape_text(trial.input),
                            trial.lengths ? " with their lengths" : "", ": ", gist(error));
    }
    if (failure.empty()) break;
  }
  at::Generator(generator).set_state(state);
  if (!failure.empty()) contract.defects.push_back(failure);
  return contract;
}

std::vector<Trial> likely_trials(const std::filesystem::path& file, const std::string& inputs, int64_t image_size,
                                 int64_t features) {
  constexpr int64_t kRows = 12;
  const ScriptNetwork network(file);
  const std::vector<at::Tensor> parameters = network.parameters();
  const auto weight = std::find_if(parameters.begin(), parameters.end(), [](const auto& p) { return p.dim() >= 2; });
  const int64_t wide = weight == parameters.end() ? 0 : weight->size(1);
  const bool image = inputs == "image" || (inputs.empty() && weight != parameters.end() && weight->dim() == 4);
  if (image) return {{.input = {3, image_size, image_size}}};
  const bool lengths = inputs == "rows+lengths" || (inputs.empty() && network.arguments().required == 2);
  const int64_t row = features > 0 ? features : std::max<int64_t>(1, wide);
  std::vector<Trial> trials = {{.input = {kRows, row}, .lengths = lengths}};
  if (!lengths) trials.push_back({.input = {row}});
  return trials;
}

std::vector<std::string> random_operations(const ScriptNetwork& network) {
  const BakedIn baked = baked_in(network.script());
  return {baked.random.begin(), baked.random.end()};
}

std::string to_text(const Contract& contract) {
  std::string text;
  for (const std::string& fact : contract.facts) text += fact + "\n";
  for (const std::string& warning : contract.warnings) text += "warning     " + warning + "\n";
  for (const std::string& defect : contract.defects) text += "defect      " + defect + "\n";
  return text;
}

}  // namespace dtrain::tasks
