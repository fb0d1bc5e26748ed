// The C++ side of cnn_lstm_parity_test.py: cnn_lstm_tool IN OUT
// IN: weights, `rows` [B, T, F], `lengths`, `targets`, `hidden` (bool [B, T]), `learning_rate`;
// their precision determines the precision of all computations. OUT: logits and reconstructed rows
// in eval mode; then, for each phase from the same weights, the losses of 20 steps of SGD with
// momentum and all parameters and statistics after them.

#include <torch/optim.h>
#include <cstdio>
#include <fstream>
#include <map>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "layers/lengths.h"
#include "models/cnn_lstm.h"
#include "models/load_weights.h"
#include "models/parameter_format.h"

namespace {

using namespace dtrain;

constexpr int kSteps = 20;

std::shared_ptr<models::CnnLstm> network_of(const std::map<std::string, at::Tensor>& weights) {
  const at::Tensor fc = weights.at("fc.weight");
  auto network = std::make_shared<models::CnnLstm>(
      models::CnnLstmOptions{.features = weights.at("conv1.weight").size(1),
                             .classes = fc.size(0),
                             .hidden = fc.size(1),
                             .dropout = 0});
  models::convert_floating_point(*network, fc.scalar_type());
  models::load_all(*network, checkpoint::NamedTensors(weights.begin(), weights.end()));
  return network;
}

void run(const std::string& in, const std::string& out) {
  checkpoint::TensorFile file = checkpoint::read_safetensors(in);
  std::map<std::string, at::Tensor> weights(file.tensors.begin(), file.tensors.end());
  const auto take = [&](const char* name) { return weights.extract(name).mapped(); };
  const at::Tensor rows = take("rows"), lengths = take("lengths"), targets = take("targets"),
                   hidden = take("hidden");
  const double rate = take("learning_rate").item<double>();
  checkpoint::NamedTensors results;
  {
    const at::NoGradGuard no_grad;
    const auto network = network_of(weights);
    network->eval();
    results.emplace_back("logits", network->classify(rows, lengths));
    const at::Tensor valid = layers::valid_positions(lengths, rows.size(1)).unsqueeze(2);
    results.emplace_back("rebuilt", network->rebuild(rows, lengths) * valid);
  }
  for (const std::string phase : {"encoder", "classifier"}) {
    const auto network = network_of(weights);
    network->train();
    torch::optim::SGD optimizer(network->parameters(),
                                torch::optim::SGDOptions(rate).momentum(0.9));
    std::vector<at::Tensor> losses;
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      at::Tensor loss;
      if (phase == "classifier") {
        loss = at::cross_entropy_loss(network->classify(rows, lengths), targets);
      } else {
        const at::Tensor mask = hidden.unsqueeze(2);
        const at::Tensor error = network->rebuild(rows.masked_fill(mask, 0), lengths) - rows;
        loss = (error * error * mask).sum() / (hidden.sum() * rows.size(2));
      }
      loss.backward();
      optimizer.step();
      losses.push_back(loss.detach());
    }
    results.emplace_back(phase + ".losses", at::stack(losses));
    for (const auto& item : network->named_parameters())
      results.emplace_back(phase + "." + item.key(), item.value());
    for (const auto& item : network->named_buffers())
      results.emplace_back(phase + "." + item.key(), item.value());
  }
  for (auto& [name, tensor] : results) tensor = tensor.detach().contiguous();
  const std::vector<std::byte> bytes = checkpoint::to_safetensors(results);
  std::ofstream(out, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 3) throw UsageError("usage: cnn_lstm_tool IN OUT");
  run(arguments[1], arguments[2]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
