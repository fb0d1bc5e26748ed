// The C++ side of parity_test.py.
//   models_parity names NETWORK OUTPUTS            "parameter|buffer NAME SHAPE", in order
//   models_parity run NETWORK OUTPUTS IN OUT       IN: weights and `input`; OUT: outputs in eval
//                                                  and train mode, the gradients of sum(output ×
//                                                  weight) and the statistics after training, in
//                                                  the precision of the input

#include <cstdio>
#include <fstream>
#include <iostream>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "models/image_networks.h"
#include "models/load_weights.h"
#include "text/strings.h"

namespace {

using namespace dtrain;

constexpr int64_t kSize = 64;  // side of parity_test.py's images

std::string shape(const at::Tensor& tensor) {
  std::string text;
  for (const int64_t size : tensor.sizes())
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

void print_names(const models::Network& network) {
  for (const auto& item : network.named_parameters())
    std::cout << "parameter " << item.key() << " " << shape(item.value()) << "\n";
  for (const auto& item : network.named_buffers())
    std::cout << "buffer " << item.key() << " " << shape(item.value()) << "\n";
}

void run(models::Network& network, const std::string& in, const std::string& out) {
  checkpoint::TensorFile file = checkpoint::read_safetensors(in);
  at::Tensor input;
  std::erase_if(file.tensors, [&](const auto& item) {
    if (item.first == "input") input = item.second;
    return item.first == "input";
  });
  for (const std::string& line : models::load_initial_weights(network, file))
    std::cout << line << "\n";
  network.to(input.scalar_type());

  checkpoint::NamedTensors results;
  network.eval();
  results.emplace_back("eval", network.forward(input).detach());
  network.train();
  const at::Tensor output = network.forward(input);
  results.emplace_back("train", output.detach());
  (output * at::arange(1, output.numel() + 1).view_as(output)).sum().backward();
  for (const auto& item : network.named_parameters())
    results.emplace_back("grad." + item.key(), item.value().grad());
  for (const auto& item : network.named_buffers())
    results.emplace_back("after." + item.key(), item.value());
  const std::vector<std::byte> bytes = checkpoint::to_safetensors(results);
  std::ofstream(out, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

int main(int count, char** arguments) try {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() < 3) throw UsageError("usage: models_parity names|run NETWORK OUTPUTS [IN OUT]");
  const auto network = models::make_network(
      words[1], {.outputs = std::stoll(words[2]), .dropout = 0, .image_size = kSize});
  if (words[0] == "names") print_names(*network);
  if (words[0] == "run") run(*network, words.at(3), words.at(4));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
