#pragma once

#include <torch/script.h>

#include <filesystem>

#include "support/temp_dir.h"

namespace dtrain::tasks {

// A TorchScript file of two linear layers for pictures of 32 pixels, which exists until the tests
// end. The layers receive means of 4 x 4 pixels. With thousands of inputs, each step of Adam would
// change all units so much that ReLUs die.
inline std::filesystem::path module_file() {
  static const dtrain::testing::TempDir folder;
  const std::filesystem::path file = folder / "network.pt";
  if (std::filesystem::exists(file)) return file;
  at::manual_seed(1);
  torch::jit::Module network("Network");
  network.register_parameter("weight1", at::randn({32, 3 * 8 * 8}) * 0.05, /*is_buffer=*/false);
  network.register_parameter("bias1", at::zeros({32}), false);
  network.register_parameter("weight2", at::randn({3, 32}) * 0.2, false);
  network.register_parameter("bias2", at::zeros({3}), false);
  for (at::Tensor parameter : network.parameters()) parameter.requires_grad_(true);
  network.define(R"(
    def forward(self, x):
        x = torch.flatten(torch.avg_pool2d(x, [4, 4]), 1)
        x = torch.relu(torch.matmul(x, torch.t(self.weight1)) + self.bias1)
        return torch.matmul(x, torch.t(self.weight2)) + self.bias2
  )");
  network.save(file.string());
  return file;
}

}  // namespace dtrain::tasks
