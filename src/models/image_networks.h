#pragma once

// The constructors behind make_network(): networks for images that more than one task may use, made
// of the layers in catalog/networks.h.
// Parameters and buffers have the names, shapes and order of their PyTorch counterparts, so that
// torchvision's weights can be loaded unchanged and give the same outputs:
//   make_resnet          torchvision's, `fc` with `outputs` rows
//   make_mobilenet_v2    torchvision's of width 1, `classifier.1` with `outputs` rows
//   make_plain_cnn       the names of a Sequential: features.I.0.weight for block I, and .bias, or
//                        features.I.1.* of its batch norm; fc.0.* (to the hidden units) and fc.2.*
//                        or, with dropout between them, fc.3.* (to the outputs)
// They take images of at least 32 pixels of any size, except a plain network without averages,
// which is made for one size. make_network() replaces the weights, which have torch's
// default values.

#include <torch/nn/modules/conv.h>

#include "catalog/catalog.h"
#include "models/network.h"

namespace dtrain::models {

std::shared_ptr<Network> make_plain_cnn(const catalog::Network&, const catalog::PictureLayers&,
                                        const NetworkOptions&);
std::shared_ptr<Network> make_mobilenet_v2(const catalog::PictureLayers&, const NetworkOptions&);
std::shared_ptr<Network> make_resnet(const catalog::PictureLayers&, const NetworkOptions&);

torch::nn::Conv2d convolution(const catalog::Convolution&, bool bias = false);

}  // namespace dtrain::models
