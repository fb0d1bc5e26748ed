// Deep residual networks (He et al. 2015) as in torchvision: the stride of a bottleneck is in
// its 3×3 convolution ("v1.5").

#include "layers/batch_norm.h"

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "layers/convolution.h"
#include "layers/gradient_checkpointing.h"
#include "models/image_networks.h"

namespace dtrain::models {
namespace {

namespace nn = torch::nn;

nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return nn::Conv2d(
      nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

class Block : public nn::Module {
 public:
  static int64_t expansion(bool bottleneck) { return bottleneck ? 4 : 1; }

  Block(int64_t in, int64_t width, int64_t stride, bool bottleneck) {
    const int64_t out = width * expansion(bottleneck);
    if (bottleneck) {
      add(conv(in, width, 1, 1), width);
      add(conv(width, width, 3, stride), width);
      add(conv(width, out, 1, 1), out);
    } else {
      add(conv(in, width, 3, stride), width);
      add(conv(width, out, 3, 1), out);
    }
    if (stride != 1 || in != out) {
      downsample_ = register_module(
          "downsample", nn::Sequential(conv(in, out, 1, stride), layers::BatchNorm(out)));
    }
  }

  at::Tensor forward(const at::Tensor& input) {
    at::Tensor x = input;
    for (size_t i = 0; i < convs_.size(); ++i) {
      layers::Epilogue epilogue = {.activation = layers::Activation::kReLU};
      if (i + 1 == convs_.size())
        epilogue.residual = downsample_ ? downsample_->forward(input) : input;
      x = norms_[i]->forward_with(layers::convolve(*convs_[i], x), epilogue);
    }
    return x;
  }

 private:
  void add(const nn::Conv2d& conv, int64_t channels) {
    const std::string number = std::to_string(convs_.size() + 1);
    convs_.push_back(register_module("conv" + number, conv));
    norms_.push_back(register_module("bn" + number, layers::BatchNorm(channels)));
  }

  std::vector<nn::Conv2d> convs_;
  std::vector<layers::BatchNorm> norms_;
  nn::Sequential downsample_{nullptr};
};

class ResNet : public Network {
 public:
  ResNet(const std::array<int64_t, 4>& depths, bool bottleneck, const NetworkOptions& options)
      : checkpointing_(options.checkpointing) {
    conv1_ = register_module("conv1", conv(3, 64, 7, 2));
    bn1_ = register_module("bn1", layers::BatchNorm(64));
    int64_t in = 64;
    for (size_t stage = 0; stage < depths.size(); ++stage) {
      const int64_t width = int64_t{64} << stage;
      nn::Sequential layer;
      for (int64_t i = 0; i < depths[stage]; ++i) {
        blocks_.push_back(
            std::make_shared<Block>(in, width, stage > 0 && i == 0 ? 2 : 1, bottleneck));
        layer->push_back(blocks_.back());
        in = width * Block::expansion(bottleneck);
      }
      register_module("layer" + std::to_string(stage + 1), layer);
    }
    fc_ = register_module("fc", nn::Linear(in, options.outputs));
  }

  at::Tensor forward(at::Tensor x) override {
    // The stem, which has no module of its own, has the largest activations.
    auto stem = [conv1 = conv1_, bn1 = bn1_](const at::Tensor& images) mutable {
      const at::Tensor x = bn1->forward_with(layers::convolve(*conv1, images),
                                             {.activation = layers::Activation::kReLU});
      return at::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
    };
    const bool kept = !checkpointing_ || !is_training();
    x = kept ? stem(x) : layers::checkpointed({conv1_->weight, bn1_->weight, bn1_->bias}, stem, x);
    for (const auto& block : blocks_) x = layers::segment(checkpointing_, block, x);
    return fc_->forward(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

  std::string head_prefix() const override { return "fc."; }

 private:
  bool checkpointing_;
  nn::Conv2d conv1_{nullptr};
  layers::BatchNorm bn1_{nullptr};
  std::vector<std::shared_ptr<Block>> blocks_;
  nn::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Network> make_resnet18(const NetworkOptions& options) {
  return std::make_shared<ResNet>(std::array<int64_t, 4>{2, 2, 2, 2}, false, options);
}

std::shared_ptr<Network> make_resnet50(const NetworkOptions& options) {
  return std::make_shared<ResNet>(std::array<int64_t, 4>{3, 4, 6, 3}, true, options);
}

}  // namespace dtrain::models
