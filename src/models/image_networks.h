#pragma once

// The constructors behind make_network(): networks for images that more than one task may use.
// Parameters and buffers have the names, shapes and order of their PyTorch counterparts, so that
// torchvision's weights can be loaded unchanged and give the same outputs:
//   resnet18, resnet50   torchvision's, `fc` with `outputs` rows
//   mobilenet_v2         torchvision's of width 1, `classifier.1` with `outputs` rows
//   headpose_cnn         the names of a Sequential: features.I.0.weight (conv 3×3 without bias),
//                        features.I.1.* (batch norm) for the five blocks I = 0..4 of 32, 64, 128,
//                        256, 512 channels; fc.0.* (512 -> 256), fc.2.* (256 -> outputs)
//   simple_cnn           features.I.0.* (conv 3×3) for the three blocks I = 0..2 of 32, 64, 128
//                        channels; fc.0.* (128 · (size / 8)² -> 256), fc.3.* (256 -> outputs)
// They take images of at least 32 pixels of any size, except simple_cnn, which is made for one
// size. The weights have torch's default values, which make_network() replaces.

#include "models/network.h"

namespace dtrain::models {

std::shared_ptr<Network> make_headpose_cnn(const NetworkOptions&);
std::shared_ptr<Network> make_simple_cnn(const NetworkOptions&);
std::shared_ptr<Network> make_mobilenet_v2(const NetworkOptions&);
std::shared_ptr<Network> make_resnet18(const NetworkOptions&);
std::shared_ptr<Network> make_resnet50(const NetworkOptions&);

}  // namespace dtrain::models
