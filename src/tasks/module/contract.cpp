#include "tasks/module/contract.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/script.h>

#include <set>

#include "checkpoint/finite_values.h"
#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/log.h"
#include "text/library_text.h"
#include "text/strings.h"

namespace dtrain::tasks {
namespace {

std::string gist(const std::exception& error) {
  const auto* own = dynamic_cast<const c10::Error*>(&error);
  const std::string words = own != nullptr ? own->what_without_backtrace() : error.what();
  log::detail(words);
  return torch_message(words);
}

// What the code of forward() contains that does not move with the module.
struct BakedIn {
  std::set<std::string> devices;  // "cpu", "cuda:0"
  // "Float [3, 4]"; without zero-dimensional ones, which work on any device
  std::set<std::string> constants;
  std::set<std::string> random;  // "aten::dropout"
};

void read(const torch::jit::Block& block, BakedIn& baked) {
  for (const torch::jit::Node* node : block.nodes()) {
    for (const torch::jit::Block* inner : node->blocks()) read(*inner, baked);
    const std::string kind = node->kind().toQualString();
    for (const char* random : {"dropout", "bernoulli", "rand", "normal", "multinomial", "rrelu"}) {
      if (kind.starts_with("aten::") && kind.find(random) != std::string::npos)
        baked.random.insert(kind);
    }
    if (node->kind() != c10::prim::Constant || !node->hasAttribute(c10::attr::value)) continue;
    if (node->output()->type()->kind() == c10::TypeKind::DeviceObjType) {
      baked.devices.insert(node->s(c10::attr::value));
    } else if (node->kindOf(c10::attr::value) == torch::jit::AttributeKind::t) {
      const at::Tensor constant = node->t(c10::attr::value);
      if (constant.dim() > 0)
        baked.constants.insert(
            dtrain::str(c10::toString(constant.scalar_type()), " ", constant.sizes()));
    }
  }
}

BakedIn baked_in(const torch::jit::Module& script) {
  // A copy in which calls of submodules and functions (such as torch.nn.functional.dropout)
  // are inlined.
  const std::shared_ptr<torch::jit::Graph> graph = script.get_method("forward").graph()->copy();
  torch::jit::Inline(*graph);
  BakedIn baked;
  read(*graph->block(), baked);
  return baked;
}

bool is_running_statistic(const std::string& buffer) {
  return buffer.ends_with("running_mean") || buffer.ends_with("running_var");
}

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kMost = 20;
  return join_first(names, kMost);
}

// "3 made-up samples, Float [3, 12, 4]": what a trial gives to forward().
std::string name_of(const ContractTrial& trial, const TrialBatch& batch) {
  const at::Tensor& inputs = batch.inputs.front();
  return dtrain::str(inputs.size(0), " ", trial.origin,
                     inputs.size(0) == 1 ? "sample, " : "samples, ",
                     c10::toString(inputs.scalar_type()), " ", inputs.sizes(),
                     batch.inputs.size() > 1 ? " with their lengths" : "");
}

// "": the output has one entry for each sample.
std::string wrong_size(const at::Tensor& output, const TrialBatch& batch) {
  const int64_t samples = batch.inputs.front().size(0);
  if (output.dim() >= 1 && output.size(0) == samples) return "";
  return dtrain::str("the output ", output.sizes(), " does not begin with one entry for each of ",
                     samples, samples == 1 ? " sample" : " samples");
}

// The sum that a training step differentiates. Class numbers that the output does not have are not
// judged here: the check of the whole file names the sample that has one.
at::Tensor trained_sum(const at::Tensor& output, const TrialBatch& batch, const ModuleLoss& loss,
                       bool with_loss) {
  if (!with_loss) return output.to(at::kDouble).square().sum();
  constexpr int64_t kNotCounted = -1;
  return loss(output, loss.classifies() ? batch.targets.clamp(kNotCounted, output.size(1) - 1)
                                        : batch.targets)
      .sum();
}

// One forward and backward pass like a training step.
void try_step(ScriptNetwork& network, const ContractTrial& trial, const ModuleLoss& loss,
              Contract& contract) {
  const TrialBatch& batch = trial.several;
  network.train();
  const at::Tensor output = network.forward(batch.inputs);
  contract.facts.push_back(dtrain::str("output      ", c10::toString(output.scalar_type()), " ",
                                       output.sizes(), " for ", name_of(trial, batch)));
  if (const std::string size = wrong_size(output, batch); !size.empty()) {
    contract.defects.push_back(size);
    return;
  }
  const bool has_targets = batch.targets.defined();
  const std::string mismatch = has_targets ? loss.mismatch(output, batch.targets) : "";
  if (!mismatch.empty()) contract.defects.push_back(mismatch);
  if (!mismatch.empty() && !output.is_floating_point()) return;  // it has no gradient either
  const bool with_loss = has_targets && mismatch.empty();
  if (with_loss && loss.classifies()) contract.classes = output.size(1);
  const at::Tensor sum = trained_sum(output, batch, loss, with_loss);
  if (!sum.requires_grad()) {
    contract.defects.push_back("the output does not depend on any trainable parameter");
    return;
  }
  sum.backward();
  std::vector<std::string> unused;
  for (const auto& parameter : network.named_parameters()) {
    if (parameter.value().requires_grad() && !parameter.value().grad().defined())
      unused.push_back(parameter.key());
  }
  if (!unused.empty())
    contract.warnings.push_back("unused parameters, which are not trained: " + listed(unused));
}

// A forward pass of a single sample, as in an evaluation, whose last batch may have only one. Where
// the length of the sample is another one, the length of the output has to follow.
void try_evaluation(ScriptNetwork& network, const ContractTrial& trial, const ModuleLoss& loss,
                    Contract& contract) {
  network.eval();
  const at::NoGradGuard no_grad;
  const at::Tensor output = network.forward(trial.one.inputs);
  if (!wrong_size(output, trial.one).empty()) {
    contract.defects.push_back(dtrain::str("one sample alone gives an output ", output.sizes(),
                                           ": the batch size is fixed in the code"));
  } else if (trial.one.targets.defined()) {
    const std::string mismatch = loss.mismatch(output, trial.one.targets);
    if (!mismatch.empty()) contract.defects.push_back(mismatch);
  }
}

// Why the network cannot be trained on a single sample, by an exception or by running statistics
// that are no longer finite: a traced batch norm divides by the number of values minus one. "":
// it can.
std::string why_not_one(ScriptNetwork& network, const ContractTrial& trial,
                        const ModuleLoss& loss) {
  network.train();
  try {
    const at::Tensor output = network.forward(trial.one.inputs);
    trained_sum(output, trial.one, loss, trial.one.targets.defined()).backward();
  } catch (const std::exception& error) {
    return gist(error);
  }
  for (const auto& buffer : network.named_buffers()) {
    const std::string defect = checkpoint::not_finite(buffer.value());
    if (is_running_statistic(buffer.key()) && !defect.empty())
      return dtrain::str(buffer.key(), " becomes ", defect);
  }
  return "";
}

// Adds what a trial finds. Returns why the code fails, if it does.
std::string try_out(ScriptNetwork& network, const ContractTrial& trial, const ModuleLoss& loss,
                    Contract& contract) {
  const TrialBatch* batch = &trial.several;
  const char* what = "forward or backward fails on ";
  try {
    try_step(network, trial, loss, contract);
    if (!contract.defects.empty()) return "";
    batch = &trial.one;
    what = "forward in an evaluation fails on ";
    try_evaluation(network, trial, loss, contract);
  } catch (const std::exception& error) {
    return dtrain::str(what, name_of(trial, *batch), ": ", gist(error));
  }
  if (!contract.defects.empty()) return "";
  if (const std::string why = why_not_one(network, trial, loss); !why.empty())
    contract.untrainable[1] = why;
  return "";
}

void count_parameters(const ScriptNetwork& network, Contract& contract) {
  int64_t elements = 0, tensors = 0, frozen = 0;
  for (const at::Tensor& parameter : network.parameters()) {
    ++(parameter.requires_grad() ? tensors : frozen);
    elements += parameter.requires_grad() ? parameter.numel() : 0;
  }
  std::vector<std::string> buffers;
  for (const auto& buffer : network.named_buffers()) buffers.push_back(buffer.key());
  contract.facts.push_back(
      dtrain::str("parameters  ", human_count(elements), " in ", tensors, " tensors",
                  frozen > 0 ? dtrain::str(", and ", frozen, " frozen tensors") : ""));
  contract.facts.push_back(
      "buffers     " +
      (buffers.empty() ? "none" : dtrain::str(buffers.size(), ": ", listed(buffers))));
  for (const auto& state : {network.named_parameters(), network.named_buffers()}) {
    for (const auto& item : state) {
      if (!checkpoint::can_hold(item.value().scalar_type())) {
        contract.defects.push_back(
            dtrain::str("'", item.key(), "' is ", c10::toString(item.value().scalar_type()),
                        ", which checkpoints cannot store: use float or int64"));
      }
    }
  }
  if (tensors == 0) {
    contract.defects.push_back(
        "no trainable parameters: a traced function, or a module after torch.jit.freeze, cannot be "
        "trained");
  }
}

// Other buffers may be infinite on purpose: a mask.
void check_values(const ScriptNetwork& network, Contract& contract) {
  std::vector<std::string> wrong;
  for (const auto& state : {network.named_parameters(), network.named_buffers()}) {
    for (const auto& item : state) {
      if (!item.value().requires_grad() && !is_running_statistic(item.key())) continue;
      const std::string defect = checkpoint::not_finite(item.value());
      if (!defect.empty()) wrong.push_back(dtrain::str(item.key(), " (", defect, ")"));
    }
  }
  if (!wrong.empty()) contract.defects.push_back("values that are not finite: " + listed(wrong));
}

// Whether the code can run on the CPU, as far as its devices are concerned.
bool judge(const BakedIn& baked, at::Device device, Contract& contract) {
  const bool gpu = device.is_cuda();
  bool runs_here = true;
  for (const std::string& name : baked.devices) {
    const bool on_gpu = name.starts_with("cuda");
    runs_here = runs_here && !on_gpu;
    if (on_gpu != gpu) {
      contract.defects.push_back(dtrain::str(
          "the device '", name, "' is fixed in the code, but the training is on ", device,
          ": use the device of an input (x.device, torch.zeros_like), and save it again"));
    } else {
      contract.warnings.push_back(dtrain::str(
          "the device '", name, "' is fixed in the code: it can train on that device only"));
    }
  }
  for (const std::string& constant : baked.constants) {
    (gpu ? contract.defects : contract.warnings)
        .push_back(dtrain::str(
            "a constant tensor ", constant,
            " is in the code and does not move with the module: register it as a buffer"));
  }
  if (!baked.random.empty()) {
    contract.facts.push_back(
        dtrain::str("random      ", listed({baked.random.begin(), baked.random.end()}),
                    ": drawn by the code itself, so they depend on the number of ranks"));
  }
  return runs_here;
}

}  // namespace

Contract examine(const std::filesystem::path& file, const std::vector<ContractTrial>& trials,
                 const ModuleLoss& loss) {
  Contract contract;
  ScriptNetwork network(file);
  count_parameters(network, contract);
  check_values(network, contract);
  const ScriptNetwork::Arguments arguments = network.arguments();
  const bool runs_here = judge(baked_in(network.script()), trials.front().device, contract);
  if (!runs_here || !contract.defects.empty())
    return contract;  // further defects would be consequences

  const at::Generator generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor state = generator.get_state();
  std::string failure;  // why the first trial failed; "" once a trial has worked
  const Contract before = contract;
  for (const ContractTrial& trial : trials) {
    const auto given = static_cast<int64_t>(trial.several.inputs.size());
    std::string why;
    if (arguments.accept(given)) {
      contract = before;
      why = try_out(network, trial, loss, contract);
    } else {
      const std::string most =
          arguments.most > arguments.required ? dtrain::str(" to ", arguments.most) : "";
      why = dtrain::str("forward() takes ", arguments.required, most,
                        " arguments, but task.inputs passes ", given);
    }
    if (why.empty()) {
      failure.clear();
      break;
    }
    if (failure.empty()) failure = why;
    contract = before;
  }
  at::Generator(generator).set_state(state);
  if (!failure.empty()) contract.defects.push_back(failure);
  return contract;
}

std::vector<std::string> random_operations(const ScriptNetwork& network) {
  const BakedIn baked = baked_in(network.script());
  return {baked.random.begin(), baked.random.end()};
}

std::string to_text(const Contract& contract) {
  std::string text;
  for (const std::string& fact : contract.facts) text += fact + "\n";
  for (const std::string& warning : contract.warnings) text += "warning     " + warning + "\n";
  for (const auto& [samples, why] : contract.untrainable) {
    text += dtrain::str("warning     cannot be trained on ", samples,
                        samples == 1 ? " sample: " : " samples: ", why, "\n");
  }
  for (const std::string& defect : contract.defects) text += "defect      " + defect + "\n";
  return text;
}

}  // namespace dtrain::tasks
