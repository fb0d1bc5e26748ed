// Trains the pointer network on given sets, for pointer_parity_test.py.
//   pointer_tool IN OUT fp32|fp64 BATCH STEPS WARM LR
// IN: weights by name, `sets` [N, T, 8], `order` [N, T], `lengths` [N]. Step s takes batch s mod (N
// / BATCH), with AdamW (weight decay 0.01), no dropout. OUT: weights afterwards, `losses` [STEPS],
// `choices` (greedy, of all sets, with the weights given), `loss_each` [N] likewise, and the first
// step's gradients as grad.NAME. Prints samples/s of the steps after WARM and by how much the steps
// raised the peak of resident memory, in KiB.

#include <chrono>
#include <cstdio>
#include <fstream>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "models/load_weights.h"
#include "models/parameter_format.h"
#include "models/pointer_network.h"

namespace {

using namespace dtrain;

struct Input {
  checkpoint::NamedTensors weights;
  at::Tensor sets, order, lengths;
};

Input read(const std::string& path) {
  Input input;
  for (auto& [name, tensor] : checkpoint::read_safetensors(path).tensors) {
    if (name == "sets") {
      input.sets = tensor;
    } else if (name == "order") {
      input.order = tensor;
    } else if (name == "lengths") {
      input.lengths = tensor;
    } else {
      input.weights.emplace_back(name, tensor);
    }
  }
  return input;
}

// Of this program alone; getrusage() would also tell what its parent used before exec.
long peak_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    long value = 0;
    if (word == "VmHWM:" && status >> value) return value;
  }
  throw Error("/proc/self/status does not say VmHWM");
}

models::Sets sets_of(const Input& input, int64_t begin, int64_t end) {
  const at::Tensor lengths = input.lengths.slice(0, begin, end);
  return {input.sets.slice(0, begin, end), lengths,
          lengths.min().item<int64_t>() < input.sets.size(1)};
}

class AdamW {
 public:
  AdamW(std::vector<at::Tensor> parameters, double lr)
      : parameters_(std::move(parameters)), lr_(lr) {
    for (const at::Tensor& p : parameters_) {
      first_.push_back(at::zeros_like(p));
      second_.push_back(at::zeros_like(p));
      steps_.push_back(at::zeros({}, at::kFloat));
    }
  }
  void step() {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& p : parameters_) gradients.push_back(p.grad());
    at::_foreach_add_(steps_, 1);
    at::_fused_adamw_(parameters_, gradients, first_, second_, {}, steps_, lr_, 0.9, 0.999, 0.01,
                      1e-8, false, false);
  }

 private:
  std::vector<at::Tensor> parameters_, first_, second_, steps_;
  double lr_;
};

}  // namespace

int main(int count, char** words) try {
  if (count != 8) throw UsageError("usage: pointer_tool IN OUT fp32|fp64 BATCH STEPS WARM LR");
  Input input = read(words[1]);
  const int64_t batch = std::atoll(words[4]), steps = std::atoll(words[5]),
                warm = std::atoll(words[6]);
  models::PointerNetwork network({.dropout = 0});
  models::load_all(network, input.weights);
  if (std::string(words[3]) == "fp64") {
    models::convert_floating_point(network, at::kDouble);
    input.sets = input.sets.to(at::kDouble);
  }

  const long before = peak_kib();
  checkpoint::NamedTensors results;
  {
    const at::NoGradGuard no_grad;
    const models::Sets all = sets_of(input, 0, std::min<int64_t>(input.sets.size(0), 256));
    const auto memory = network.encode(all);
    const at::Tensor order = input.order.slice(0, 0, all.elements.size(0));
    results.emplace_back("choices", network.choose(all, memory));
    results.emplace_back("loss_each", network.losses(all, memory, order, order));
  }
  network.train();
  AdamW optimizer(network.parameters(), std::atof(words[7]));
  std::vector<double> losses;
  auto begin = std::chrono::steady_clock::now();
  for (int64_t step = 0; step < steps; ++step) {
    if (step == warm) begin = std::chrono::steady_clock::now();
    const int64_t at = step % (input.sets.size(0) / batch) * batch;
    const models::Sets sets = sets_of(input, at, at + batch);
    const at::Tensor order = input.order.slice(0, at, at + batch);
    for (const at::Tensor& p : network.parameters()) {
      if (p.grad().defined()) p.mutable_grad().zero_();
    }
    const at::Tensor loss =
        network.losses(sets, network.encode(sets), order, order).sum() / sets.lengths.sum();
    loss.backward();
    if (step == 0) {
      for (const auto& item : network.named_parameters()) {
        results.emplace_back("grad." + item.key(), item.value().grad().clone());
      }
    }
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%.3f %ld\n", static_cast<double>(batch * (steps - warm)) / seconds,
              peak_kib() - before);

  results.emplace_back("losses", at::tensor(losses, at::kDouble));
  for (const auto& item : network.named_parameters())
    results.emplace_back(item.key(), item.value().detach());
  const std::vector<std::byte> bytes = checkpoint::to_safetensors(results);
  std::ofstream(words[2], std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
