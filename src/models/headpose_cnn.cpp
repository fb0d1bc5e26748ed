#include "layers/batch_norm.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "layers/convolution.h"
#include "layers/dropout.h"
#include "layers/gradient_checkpointing.h"
#include "models/image_networks.h"

namespace dtrain::models {
namespace {

namespace nn = torch::nn;

// Corresponds to a Sequential of convolution, batch norm, ReLU and pooling; the latter two have no
// parameters. (A C++ Sequential cannot contain a Sequential.)
class Block : public nn::Module {
 public:
  Block(int64_t in, int64_t out) {
    conv_ = register_module("0", nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1).bias(false)));
    norm_ = register_module("1", layers::BatchNorm(out));
  }
  at::Tensor forward(const at::Tensor& x) {
    return norm_->forward_with(layers::convolve(*conv_, x),
                               {.activation = layers::Activation::kReLU, .max_pool = true});
  }

 private:
  nn::Conv2d conv_{nullptr};
  layers::BatchNorm norm_{nullptr};
};

class HeadposeCnn : public Network {
 public:
  explicit HeadposeCnn(const NetworkOptions& options) : checkpointing_(options.checkpointing) {
    int64_t in = 3;
    nn::Sequential features;
    for (const int64_t out : {32, 64, 128, 256, 512}) {
      blocks_.push_back(std::make_shared<Block>(in, out));
      features->push_back(blocks_.back());
      in = out;
    }
    register_module("features", features);
    dropout_ = register_module("dropout", layers::KeyedDropout(options.dropout, kDropoutLayer));
    fc_ = register_module(
        "fc", nn::Sequential(nn::Linear(512, 256), nn::ReLU(), nn::Linear(256, options.outputs)));
  }

  at::Tensor forward(at::Tensor x) override {
    for (const auto& block : blocks_) x = layers::segment(checkpointing_, block, x);
    return fc_->forward(dropout_->forward(x.mean({2, 3})));
  }

  std::string head_prefix() const override { return "fc.2."; }

 private:
  static constexpr int64_t kDropoutLayer = 0;

  bool checkpointing_;
  std::vector<std::shared_ptr<Block>> blocks_;
  layers::KeyedDropout dropout_{nullptr};
  nn::Sequential fc_;
};

}  // namespace

std::shared_ptr<Network> make_headpose_cnn(const NetworkOptions& options) {
  return std::make_shared<HeadposeCnn>(options);
}

}  // namespace dtrain::models
