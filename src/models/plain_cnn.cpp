// Networks for beginners: blocks of a convolution and max-pooling, then two linear layers.

#include "layers/batch_norm.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "core/check.h"
#include "layers/convolution.h"
#include "layers/dropout.h"
#include "layers/epilogue.h"
#include "layers/gradient_checkpointing.h"
#include "models/image_networks.h"
#include "text/strings.h"

namespace dtrain::models {
namespace {

namespace nn = torch::nn;

// Corresponds to a Sequential of convolution, batch norm if there is one, ReLU and pooling; the
// latter two have no parameters. (A C++ Sequential cannot contain a Sequential.)
class Block : public nn::Module {
 public:
  Block(const catalog::Convolution& conv, bool batch_norm) {
    conv_ = register_module("0", convolution(conv, /*bias=*/!batch_norm));
    if (batch_norm) norm_ = register_module("1", layers::BatchNorm(conv.out));
  }
  at::Tensor forward(const at::Tensor& x) {
    constexpr auto kReLU = layers::Activation::kReLU;
    const at::Tensor y = layers::convolve(*conv_, x);
    return norm_ ? norm_->forward_with(y, {.activation = kReLU, .max_pool = true})
                 : layers::max_pool(y, kReLU);
  }

 private:
  nn::Conv2d conv_{nullptr};
  layers::BatchNorm norm_{nullptr};
};

class PlainCnn : public Network {
 public:
  PlainCnn(const catalog::NetworkEntry& network, const catalog::PictureLayers& net,
           const NetworkOptions& options)
      : name_(network.name), net_(net), options_(options) {
    nn::Sequential features;
    int64_t inputs = 0, side = options.image_size;
    for (const catalog::ConvBlock& block : catalog::blocks_of(net)) {
      blocks_.push_back(std::make_shared<Block>(block.convolutions.front(), network.batch_norm));
      features->push_back(blocks_.back());
      side = (side + block.stride - 1) / block.stride / 2;
      inputs = net.averages ? block.out() : block.out() * side * side;
    }
    register_module("features", features);
    const layers::KeyedDropout dropout(options.dropout, kDropoutLayer);
    if (net.averages) dropout_ = register_module("dropout", dropout);
    fc_->push_back(nn::Linear(inputs, net.hidden));
    fc_->push_back(nn::ReLU());
    if (!net.averages) fc_->push_back(dropout);
    fc_->push_back(nn::Linear(net.hidden, options.outputs));
    register_module("fc", fc_);
  }

  at::Tensor forward(at::Tensor x) override {
    const int64_t size = options_.image_size;
    DTRAIN_CHECK(net_.averages || (x.size(2) == size && x.size(3) == size), "this ", name_,
                 " takes images of ", size, " pixels, not ", x.sizes());
    for (const auto& block : blocks_) x = layers::segment(options_.checkpointing, block, x);
    return fc_->forward(net_.averages ? dropout_->forward(x.mean({2, 3})) : x.flatten(1));
  }

  std::string head_prefix() const override { return str(catalog::head_of(net_), '.'); }

 private:
  static constexpr int64_t kDropoutLayer = 0;

  std::string name_;
  catalog::PictureLayers net_;
  NetworkOptions options_;
  std::vector<std::shared_ptr<Block>> blocks_;
  layers::KeyedDropout dropout_{nullptr};
  nn::Sequential fc_;
};

}  // namespace

std::shared_ptr<Network> make_plain_cnn(const catalog::NetworkEntry& network,
                                        const catalog::PictureLayers& net,
                                        const NetworkOptions& options) {
  return std::make_shared<PlainCnn>(network, net, options);
}

}  // namespace dtrain::models
