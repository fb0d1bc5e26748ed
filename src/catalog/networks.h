#pragma once

// The layers of dtrain's networks, as plain values. src/models makes modules of them, and
// src/export the nodes of a graph, so that a network is described once. Parameters have PyTorch's
// names (models/image_networks.h). Constant; knows nothing of torch.

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <variant>
#include <vector>

namespace dtrain::catalog {

struct Convolution {  // square, padded so that a stride of 1 keeps the size
  int64_t in = 0, out = 0, kernel = 1, stride = 1, groups = 1;
  constexpr int64_t padding() const { return kernel / 2; }
};

// Blocks that follow each other and have equally many channels.
struct ConvStage {
  int64_t channels = 0, blocks = 1;
  int64_t stride = 1;     // only the first block has it; the others have 1
  int64_t expansion = 1;  // kInvertedResidual: channels between its 1 × 1 convolutions ÷ input's
};

class ConvStages {  // at most eight
 public:
  constexpr ConvStages(std::initializer_list<ConvStage> stages) {
    for (const ConvStage& stage : stages) stages_.at(count_++) = stage;
  }
  constexpr const ConvStage* begin() const { return stages_.data(); }
  constexpr const ConvStage* end() const { return stages_.data() + count_; }

 private:
  std::array<ConvStage, 8> stages_{};
  size_t count_ = 0;
};

enum class ConvBlockKind {
  kPlain,            // 3 × 3, batch norm if the network has it, ReLU, 2 × 2 max-pooling
  kResidual,         // two 3 × 3
  kBottleneck,       // 1 × 1, 3 × 3, 1 × 1 to four times the channels
  kInvertedResidual  // 1 × 1 where it expands, depthwise 3 × 3, 1 × 1 without activation
};

// A network of pictures: stem, blocks, a convolution to `features`, linear layers.
struct PictureLayers {
  ConvBlockKind block = ConvBlockKind::kPlain;
  ConvStages stages = {};
  Convolution stem = {.in = 3};  // no output channels: none
  int64_t features = 0;          // channels of a last 1 × 1 convolution; 0: none
  int64_t hidden = 0;            // kPlain: units of the first of its two linear layers
  // kPlain: whether linear layers take the mean of each channel, with dropout before them, or all
  // values, with dropout between them.
  bool averages = true;
};

struct ConvBlock {
  std::vector<Convolution> convolutions;
  size_t stage = 0;
  int64_t number = 0;  // in its stage
  int64_t in() const { return convolutions.front().in; }
  int64_t out() const { return convolutions.back().out; }
  int64_t stride = 1;
  bool keeps_shape() const { return stride == 1 && in() == out(); }
};
std::vector<ConvBlock> blocks_of(const PictureLayers&);  // in their order

// The max-pooling after the stem of kResidual and kBottleneck.
struct MaxPooling {
  int64_t kernel = 0, stride = 0, padding = 0;
};
inline constexpr MaxPooling kStemPooling{3, 2, 1};

std::string_view head_of(const PictureLayers&);  // name of the last linear layer

// Convolutions over the rows of a sequence, each with batch norm and ReLU, then an LSTM.
struct SequenceLayers {
  std::array<Convolution, 2> convolutions;  // the first one takes the features of a row
  int64_t lstm_layers = 1;
  constexpr int64_t stride() const {  // rows of the input ÷ steps of the LSTM
    int64_t product = 1;
    for (const Convolution& one : convolutions) product *= one.stride;
    return product;
  }
};
inline constexpr SequenceLayers kCnnLstm{
    .convolutions = {{{.out = 64, .kernel = 5}, {.in = 64, .out = 128, .kernel = 5, .stride = 2}}},
    .lstm_layers = 2};

struct SetLayers {  // an LSTM over the elements of a set, and a decoder of one layer
  int64_t encoder_layers = 1;
};
inline constexpr SetLayers kPointerNetwork{.encoder_layers = 2};

struct TorchScriptLayers {};  // what the file says

// monostate: layers that the task's folder makes; such a network is not exported as a graph.
using NetworkLayers =
    std::variant<std::monostate, PictureLayers, SequenceLayers, SetLayers, TorchScriptLayers>;

}  // namespace dtrain::catalog
