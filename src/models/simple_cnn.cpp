// A network for beginners: three convolutions and two linear layers, whose number of inputs depends
// on the
// size of the images.

#include "core/check.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "layers/convolution.h"
#include "layers/dropout.h"
#include "layers/epilogue.h"
#include "layers/gradient_checkpointing.h"
#include "models/image_networks.h"

namespace dtrain::models {
namespace {

namespace nn = torch::nn;

// Corresponds to a Sequential of convolution, ReLU and pooling; the latter two have no parameters.
class Block : public nn::Module {
 public:
  Block(int64_t in, int64_t out) {
    conv_ = register_module("0", nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1)));
  }
  at::Tensor forward(const at::Tensor& x) {
    return layers::max_pool(layers::convolve(*conv_, x), layers::Activation::kReLU);
  }

 private:
  nn::Conv2d conv_{nullptr};
};

class SimpleCnn : public Network {
 public:
  explicit SimpleCnn(const NetworkOptions& options) : options_(options) {
    int64_t in = 3;
    nn::Sequential features;
    for (const int64_t out : {32, 64, 128}) {
      blocks_.push_back(std::make_shared<Block>(in, out));
      features->push_back(blocks_.back());
      in = out;
    }
    register_module("features", features);
    const int64_t side = options.image_size / 8;  // three times halved, rounded down
    fc_ = register_module("fc", nn::Sequential(nn::Linear(in * side * side, 256), nn::ReLU(),
                                               layers::KeyedDropout(options.dropout, kDropoutLayer),
                                               nn::Linear(256, options.outputs)));
  }

  at::Tensor forward(at::Tensor x) override {
    DTRAIN_CHECK(x.size(2) == options_.image_size && x.size(3) == options_.image_size,
                 "this simple_cnn takes images of ", options_.image_size, " pixels, not ",
                 x.sizes());
    for (const auto& block : blocks_) x = layers::segment(options_.checkpointing, block, x);
    return fc_->forward(x.flatten(1));
  }

  std::string head_prefix() const override { return "fc.3."; }

 private:
  static constexpr int64_t kDropoutLayer = 0;

  NetworkOptions options_;
  std::vector<std::shared_ptr<Block>> blocks_;
  nn::Sequential fc_{nullptr};
};

}  // namespace

std::shared_ptr<Network> make_simple_cnn(const NetworkOptions& options) {
  return std::make_shared<SimpleCnn>(options);
}

}  // namespace dtrain::models
