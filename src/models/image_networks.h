#pragma once

// The networks for images by name, which more than one task may use, of the layers in
// catalog/networks.h. Parameters and buffers have the names, shapes and order of their PyTorch
// counterparts, so that torchvision's weights can be loaded unchanged and give the same outputs:
//   resnet          torchvision's, `fc` with `outputs` rows
//   mobilenet_v2    torchvision's of width 1, `classifier.1` with `outputs` rows
//   plain_cnn       the names of a Sequential: for block I features.I.0.* (convolution) and, with
//                   batch norm, features.I.1.*; fc.0.* (to `hidden` units); to the outputs fc.2.*
//                   or, where it flattens, fc.3.*
// They take images of at least 32 pixels of any size, except a plain_cnn that flattens, which is
// made for one size.

#include <torch/nn/modules/conv.h>

#include <memory>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "models/network.h"

namespace dtrain::models {

// With initial weights. ConfigError if the name is unknown.
std::shared_ptr<Network> make_network(const std::string& name, const NetworkOptions&);
std::vector<std::string> network_names();

// The constructors behind make_network(). The weights have torch's default values, which
// make_network() replaces.
std::shared_ptr<Network> make_plain_cnn(const catalog::NetworkEntry&, const catalog::PictureLayers&,
                                        const NetworkOptions&);
std::shared_ptr<Network> make_mobilenet_v2(const catalog::PictureLayers&, const NetworkOptions&);
std::shared_ptr<Network> make_resnet(const catalog::PictureLayers&, const NetworkOptions&);

torch::nn::Conv2d convolution(const catalog::Convolution&, bool bias = false);

}  // namespace dtrain::models
