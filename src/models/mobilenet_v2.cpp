// MobileNetV2 of width 1 (Sandler et al. 2018) as in torchvision.

#include "layers/batch_norm.h"

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "layers/convolution.h"
#include "layers/depthwise.h"
#include "layers/dropout.h"
#include "layers/gradient_checkpointing.h"
#include "layers/linear_bottleneck.h"
#include "models/image_networks.h"

namespace dtrain::models {
namespace {

namespace nn = torch::nn;

nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1, int64_t groups = 1) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel)
                        .stride(stride)
                        .padding(kernel / 2)
                        .groups(groups)
                        .bias(false));
}

// torchvision's Conv2dNormActivation.
class ConvNormRelu6 : public nn::Module {
 public:
  ConvNormRelu6(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1, int64_t groups = 1)
      : stride_(stride), depthwise_(groups == out) {
    conv_ = register_module("0", conv(in, out, kernel, stride, groups));
    norm_ = register_module("1", layers::BatchNorm(out));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = depthwise_ ? layers::depthwise_conv(x, conv_->weight, stride_)
                                    : layers::convolve(*conv_, x);
    return norm_->forward_with(y, {.activation = layers::Activation::kReLU6});
  }

  const at::Tensor& weight() const { return conv_->weight; }
  layers::BatchNormImpl* norm() { return norm_.get(); }

 private:
  int64_t stride_;
  bool depthwise_;
  nn::Conv2d conv_{nullptr};
  layers::BatchNorm norm_{nullptr};
};

// 1×1 to `expansion` times the channels, depthwise 3×3, 1×1 to `out` channels without activation.
class InvertedResidual : public nn::Module {
 public:
  InvertedResidual(int64_t in, int64_t out, int64_t stride, int64_t expansion)
      : residual_(stride == 1 && in == out), stride_(stride) {
    const int64_t hidden = in * expansion;
    if (expansion != 1) expanding_.push_back(std::make_shared<ConvNormRelu6>(in, hidden, 1));
    expanding_.push_back(std::make_shared<ConvNormRelu6>(hidden, hidden, 3, stride, hidden));
    nn::Sequential all;
    for (const auto& layer : expanding_) all->push_back(layer);
    all->push_back(project_ = conv(hidden, out, 1));
    all->push_back(norm_ = layers::BatchNorm(out));
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

struct Stage {
  int64_t expansion, channels, blocks, stride;
};
constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                             {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

class MobileNetV2 : public Network {
 public:
  explicit MobileNetV2(const NetworkOptions& options) : checkpointing_(options.checkpointing) {
    stem_ = add(std::make_shared<ConvNormRelu6>(3, 32, 3, 2));
    int64_t in = 32;
    for (const Stage& stage : kStages) {
      for (int64_t i = 0; i < stage.blocks; ++i) {
        blocks_.push_back(add(std::make_shared<InvertedResidual>(
            in, stage.channels, i == 0 ? stage.stride : 1, stage.expansion)));
        in = stage.channels;
      }
    }
    last_ = add(std::make_shared<ConvNormRelu6>(in, kFeatures, 1));
    register_module("features", features_);
    classifier_->push_back(layers::KeyedDropout(options.dropout, kDropoutLayer));
    classifier_->push_back(nn::Linear(kFeatures, options.outputs));
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
  static constexpr int64_t kFeatures = 1280, kDropoutLayer = 0;

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

std::shared_ptr<Network> make_mobilenet_v2(const NetworkOptions& options) {
  return std::make_shared<MobileNetV2>(options);
}

}  // namespace dtrain::models
