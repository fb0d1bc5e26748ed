#pragma once

// The constructors behind make_network(): layers in torch's order, weights not yet keyed.

#include "models/models.h"
#include "models/random_context.h"

namespace dtrain::models {

std::shared_ptr<Network> make_headpose_cnn(const NetworkOptions&);
std::shared_ptr<Network> make_simple_cnn(const NetworkOptions&);
std::shared_ptr<Network> make_mobilenet_v2(const NetworkOptions&);
std::shared_ptr<Network> make_resnet18(const NetworkOptions&);
std::shared_ptr<Network> make_resnet50(const NetworkOptions&);

// keyed_dropout as a layer, for the place that torch's Dropout has in a Sequential. `layer`: its ordinal.
class KeyedDropoutImpl : public torch::nn::Module {
 public:
  KeyedDropoutImpl(double p, int64_t layer) : p_(p), layer_(layer) {}
  at::Tensor forward(const at::Tensor& x) { return is_training() && p_ > 0 ? keyed_dropout(x, p_, layer_) : x; }

 private:
  double p_;
  int64_t layer_;
};
TORCH_MODULE(KeyedDropout);

// Fresh weights: convolutions He-normal by fan-out with bias 0, batch norm 1 and 0, as torchvision's networks begin.
// Linear layers: uniform within 1/sqrt(fan-in) (resnet and torch's default), or normal and bias 0 (mobilenet_v2). Each
// tensor has a generator of its own, keyed by (seed, name).
enum class LinearValues { kUniform, kNormal };
void initialise(torch::nn::Module&, uint64_t seed, LinearValues = LinearValues::kUniform);

// The generator of one tensor's fresh values.
at::Generator keyed_generator(uint64_t seed, const std::string& parameter);

}  // namespace dtrain::models
