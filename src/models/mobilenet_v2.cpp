// MobileNetV2 of width 1 (Sandler et al. 2018) as in torchvision.

#include "layers/batch_norm.h"

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "layers/convolution.h"
#include "layers/dropout.h"
#include "layers/gradient_checkpointing.h"
#include "layers/linear_bottleneck.h"
#include "models/image_networks.h"

namespace dtrain::models {
namespace {

namespace nn = torch::nn;

// torchvision's Conv2dNormActivation.
class ConvNormRelu6 : public nn::Module {
 public:
  explicit ConvNormRelu6(const catalog::Convolution& conv) {
    conv_ = register_module("0", convolution(conv));
    norm_ = register_module("1", layers::BatchNorm(conv.out));
  }
  at::Tensor forward(const at::Tensor& x) {
    return norm_->forward_with(layers::convolve(*conv_, x),
                               {.activation = layers::Activation::kReLU6});
  }

  const at::Tensor& weight() const { return conv_->weight; }
  layers::BatchNormImpl* norm() { return norm_.get(); }

 private:
  nn::Conv2d conv_{nullptr};
  layers::BatchNorm norm_{nullptr};
};

// 1×1 to more channels, depthwise 3×3, 1×1 to `out` channels without activation.
class InvertedResidual : public nn::Module {
 public:
  explicit InvertedResidual(const catalog::ConvBlock& block)
      : residual_(block.keeps_shape()), stride_(block.stride) {
    nn::Sequential all;
    for (size_t i = 0; i + 1 < block.convolutions.size(); ++i) {
      expanding_.push_back(std::make_shared<ConvNormRelu6>(block.convolutions[i]));
      all->push_back(expanding_.back());
    }
    all->push_back(project_ = convolution(block.convolutions.back()));
    all->push_back(norm_ = layers::BatchNorm(block.out()));
    register_module("conv", all);
  }
  at::Tensor forward(const at::Tensor& input) {
    layers::Epilogue epilogue;
    if (residual_) epilogue.residual = input;
    const layers::LinearBottleneck block = bottleneck();
    if (layers::is_fused(block, input))
      return norm_->forward_with(layers::run(block, input), epilogue);
    at::Tensor x = input;
    for (const auto& layer : expanding_) x = layer->forward(x);
    return norm_->forward_with(project_->forward(x), epilogue);
  }

 private:
  layers::LinearBottleneck bottleneck() {
    layers::LinearBottleneck block = {.depthwise = expanding_.back()->weight(),
                                      .depthwise_norm = expanding_.back()->norm(),
                                      .projection = project_->weight,
                                      .stride = stride_};
    if (expanding_.size() == 1) return block;
    block.expansion = expanding_.front()->weight();
    block.expansion_norm = expanding_.front()->norm();
    return block;
  }

  bool residual_;
  int64_t stride_;
  std::vector<std::shared_ptr<ConvNormRelu6>> expanding_;
  nn::Conv2d project_{nullptr};
  layers::BatchNorm norm_{nullptr};
};

class MobileNetV2 : public Network {
 public:
  MobileNetV2(const catalog::PictureLayers& net, const NetworkOptions& options)
      : checkpointing_(options.checkpointing) {
    stem_ = add(std::make_shared<ConvNormRelu6>(net.stem));
    catalog::Convolution last{.out = net.features};
    for (const catalog::ConvBlock& block : catalog::blocks_of(net)) {
      blocks_.push_back(add(std::make_shared<InvertedResidual>(block)));
      last.in = block.out();
    }
    last_ = add(std::make_shared<ConvNormRelu6>(last));
    register_module("features", features_);
    classifier_->push_back(layers::KeyedDropout(options.dropout, kDropoutLayer));
    classifier_->push_back(nn::Linear(net.features, options.outputs));
    register_module("classifier", classifier_);
  }

  at::Tensor forward(at::Tensor x) override {
    x = layers::segment(checkpointing_, stem_, x);
    for (const auto& block : blocks_) x = layers::segment(checkpointing_, block, x);
    x = layers::segment(checkpointing_, last_, x);
    return classifier_->forward(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

  std::string head_prefix() const override { return "classifier.1."; }

 private:
  static constexpr int64_t kDropoutLayer = 0;

  template <typename Block>
  std::shared_ptr<Block> add(std::shared_ptr<Block> block) {
    features_->push_back(block);
    return block;
  }

  bool checkpointing_;
  std::shared_ptr<ConvNormRelu6> stem_, last_;
  std::vector<std::shared_ptr<InvertedResidual>> blocks_;
  nn::Sequential features_, classifier_;
};

}  // namespace

std::shared_ptr<Network> make_mobilenet_v2(const catalog::PictureLayers& net,
                                           const NetworkOptions& options) {
  return std::make_shared<MobileNetV2>(net, options);
}

}  // namespace dtrain::models
