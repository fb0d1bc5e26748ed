// The C++ side of bench/sequence_vs_python.py: training steps of the cnn_lstm network on given batches.
//
// usage: sequence_step IN OUT PRECISION THREADS ROUNDS
//
// IN holds the weights, and batch I as rows.I [B, T, F], lengths.I, targets.I. One round is one step (forward, cross
// entropy, backward, fused AdamW) on each batch; the first round is not timed. Prints samples per second and CPU
// seconds per round. OUT receives the logits of each batch in eval mode and, before the first step, in train mode.

#include <ATen/Parallel.h>
#include <ATen/ops/_fused_adamw.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "layers/autocast.h"
#include "models/cnn_lstm.h"
#include "models/load_weights.h"

namespace {

using namespace dtrain;

struct RaggedBatch {
  at::Tensor rows, lengths, targets;
};

// torch.optim.AdamW(fused=True) with its defaults.
class AdamW {
 public:
  explicit AdamW(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {
    for (const at::Tensor& p : parameters_) {
      averages_.push_back(at::zeros_like(p)), squares_.push_back(at::zeros_like(p));
      steps_.push_back(at::zeros({}, at::kFloat));
    }
  }
  void step() {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    for (size_t i = 0; i < parameters_.size(); ++i) gradients.push_back(parameters_[i].grad()), steps_[i] += 1;
    at::_fused_adamw_(parameters_, gradients, averages_, squares_, {}, steps_, 1e-3, 0.9, 0.999, 0.01, 1e-8, false,
                      false);
  }

 private:
  std::vector<at::Tensor> parameters_, averages_, squares_, steps_;
};

void bench(const std::vector<std::string>& words) {
  const bool half = words.at(2) == "bf16";
  // Set before the thread pool starts, because its threads inherit it. dtrain does the same.
  at::globalContext().setFlushDenormal(true);
  at::set_num_threads(std::stoi(words.at(3)));
  const int rounds = std::stoi(words.at(4));

  checkpoint::TensorFile file = checkpoint::read_safetensors(words.at(0));
  std::map<std::string, at::Tensor> tensors(file.tensors.begin(), file.tensors.end());
  std::vector<RaggedBatch> batches;
  for (int i = 0; tensors.contains("rows." + std::to_string(i)); ++i) {
    const auto take = [&](const char* name) { return tensors.extract(name + std::to_string(i)).mapped(); };
    batches.push_back({take("rows."), take("lengths."), take("targets.")});
  }
  models::CnnLstm network({.features = batches.at(0).rows.size(2),
                           .classes = tensors.at("fc.weight").size(0),
                           .hidden = tensors.at("fc.weight").size(1),
                           .dropout = 0});
  file.tensors.assign(tensors.begin(), tensors.end());
  models::load_initial_weights(network, file);
  for (auto& item : network.named_parameters()) {
    if (item.key().starts_with("reconstruct.")) item.value().set_requires_grad(false);
  }

  const auto logits = [&](const RaggedBatch& batch) {
    const layers::AutocastGuard autocast({.device = at::kCPU, .enabled = half, .dtype = at::kBFloat16});
    return network.classify(batch.rows, batch.lengths).to(at::kFloat);
  };
  checkpoint::NamedTensors outputs;
  for (size_t i = 0; i < batches.size(); ++i) {
    const at::NoGradGuard no_grad;
    network.eval();
    outputs.emplace_back("eval." + std::to_string(i), logits(batches[i]));
  }
  network.train();
  std::vector<at::Tensor> learning;
  for (const at::Tensor& p : network.parameters()) {
    if (p.requires_grad()) learning.push_back(p);
  }
  AdamW optimizer(learning);
  std::chrono::steady_clock::time_point begin;
  std::clock_t cpu = 0;
  int64_t samples = 0;
  for (int round = 0; round <= rounds; ++round) {
    if (round == 1) begin = std::chrono::steady_clock::now(), cpu = std::clock();
    for (size_t i = 0; i < batches.size(); ++i) {
      for (const at::Tensor& p : learning) {
        if (p.grad().defined()) p.mutable_grad().zero_();
      }
      const at::Tensor result = logits(batches[i]);
      at::cross_entropy_loss(result, batches[i].targets).backward();
      if (round == 0 && i == 0) outputs.emplace_back("train.0", result.detach());
      optimizer.step();
      if (round > 0) samples += result.size(0);
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::cout << static_cast<double>(samples) / seconds << " "
            << static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC / rounds << "\n";
  const std::vector<std::byte> bytes = checkpoint::to_safetensors(outputs);
  std::ofstream(words.at(1), std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

int main(int count, char** arguments) try {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() != 5) throw UsageError("usage: sequence_step IN OUT fp32|bf16 THREADS ROUNDS");
  bench(words);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
