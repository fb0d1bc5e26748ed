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

class Block : public nn::Module {
 public:
  explicit Block(const catalog::ConvBlock& block) {
    for (const catalog::Convolution& conv : block.convolutions) {
      const std::string number = std::to_string(convs_.size() + 1);
      convs_.push_back(register_module("conv" + number, convolution(conv)));
      norms_.push_back(register_module("bn" + number, layers::BatchNorm(conv.out)));
    }
    if (block.keeps_shape()) return;
    const catalog::Convolution conv{.in = block.in(), .out = block.out(), .stride = block.stride};
    downsample_ = register_module("downsample",
                                  nn::Sequential(convolution(conv), layers::BatchNorm(conv.out)));
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
  std::vector<nn::Conv2d> convs_;
  std::vector<layers::BatchNorm> norms_;
  nn::Sequential downsample_{nullptr};
};

class ResNet : public Network {
 public:
  ResNet(const catalog::PictureLayers& net, const NetworkOptions& options)
      : checkpointing_(options.checkpointing) {
    conv1_ = register_module("conv1", convolution(net.stem));
    bn1_ = register_module("bn1", layers::BatchNorm(net.stem.out));
    nn::Sequential layer;
    int64_t channels = 0;
    for (const catalog::ConvBlock& block : catalog::blocks_of(net)) {
      if (block.number == 0)
        layer = register_module("layer" + std::to_string(block.stage + 1), nn::Sequential());
      blocks_.push_back(std::make_shared<Block>(block));
      layer->push_back(blocks_.back());
      channels = block.out();
    }
    fc_ = register_module("fc", nn::Linear(channels, options.outputs));
  }

  at::Tensor forward(at::Tensor x) override {
    // The stem, which has no module of its own, has the largest activations.
    auto stem = [conv1 = conv1_, bn1 = bn1_](const at::Tensor& images) mutable {
      const at::Tensor x = bn1->forward_with(layers::convolve(*conv1, images),
                                             {.activation = layers::Activation::kReLU});
      constexpr catalog::MaxPooling pool = catalog::kStemPooling;
      return at::max_pool2d(x, pool.kernel, pool.stride, pool.padding);
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

std::shared_ptr<Network> make_resnet(const catalog::PictureLayers& net,
                                     const NetworkOptions& options) {
  return std::make_shared<ResNet>(net, options);
}

}  // namespace dtrain::models
