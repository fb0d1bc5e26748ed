#pragma once

// The layers of dtrain's networks, as plain values. src/models makes modules of them, and
// src/export the nodes of a graph, so that a network is described once. Parameters have PyTorch's
// names (models/image_networks.h). Constant; knows nothing of torch.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

namespace dtrain::catalog {

struct Convolution {  // square, padded so that a stride of 1 keeps the size
  int64_t in = 0, out = 0, kernel = 1, stride = 1, groups = 1;
  constexpr int64_t padding() const { return kernel / 2; }
};

struct MaxPooling {
  int64_t kernel = 0, stride = 0, padding = 0;
};

// Blocks that follow each other and have equally many channels.
struct ConvStage {
  int64_t channels = 0, blocks = 1;
  int64_t stride = 1;     // only the first block has it; the others have 1
  int64_t expansion = 1;  // kInvertedResidual: channels between its 1 × 1 convolutions ÷ input's
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
  std::array<ConvStage, 8> stages = {};  // those with channels
  Convolution stem = {.in = 3};          // no output channels: none
  int64_t features = 0;                  // channels of a last 1 × 1 convolution; 0: none
  int64_t hidden = 0;                    // kPlain: units of the first of its two linear layers
  // kPlain: whether linear layers take the mean of each channel, with dropout before them, or all
  // values, with dropout between them.
  bool averages = true;
};
inline constexpr MaxPooling kStemPooling{3, 2, 1};  // used by kResidual and kBottleneck
std::string_view head_of(const PictureLayers&);     // name of the last linear layer

struct ConvBlock {
  std::vector<Convolution> convolutions;
  size_t stage = 0;
  int64_t number = 0, stride = 1;  // number: in its stage
  int64_t in() const { return convolutions.front().in; }
  int64_t out() const { return convolutions.back().out; }
  bool keeps_shape() const { return stride == 1 && in() == out(); }
};
std::vector<ConvBlock> blocks_of(const PictureLayers&);  // first to last

// LSTM layers that follow each other, with dropout between them; each has model.hidden units.
struct LstmStack {
  const char* name = "";
  int64_t layers = 0;
};

// Two convolutions over the rows of a sequence, each with batch norm and ReLU, LSTM layers, and a
// linear layer that takes the last valid state.
struct SequenceLayers {
  Convolution first, second;  // `first` takes the features of a row
  LstmStack lstm;
};
inline constexpr SequenceLayers kCnnLstm{.first = {.out = 64, .kernel = 5},
                                         .second = {.in = 64, .out = 128, .kernel = 5, .stride = 2},
                                         .lstm = {.name = "lstm", .layers = 2}};

// Linear layers without bias: v · tanh(key(state of an element) + query(state of the decoder)). Key
// and query have model.hidden outputs.
struct AttentionLayers {
  const char* name = "";  // the module that has the others
  const char *key = "", *query = "", *v = "";
};

// LSTM layers over the elements of a set, one that decodes, and attention, which chooses.
struct SetLayers {
  LstmStack encoder;
  const char* decoder = "";  // one LSTM layer: from the encoder's last state, takes what was chosen
  AttentionLayers attention;
};
inline constexpr SetLayers kPointerNetwork{
    .encoder = {.name = "encoder", .layers = 2},
    .decoder = "decoder",
    .attention = {.name = "attention", .key = "key", .query = "query", .v = "v"}};

struct TorchScriptLayers {};  // what the file says

// monostate: layers that the task's folder makes; such a network is not exported as a graph.
using NetworkLayers =
    std::variant<std::monostate, PictureLayers, SequenceLayers, SetLayers, TorchScriptLayers>;

}  // namespace dtrain::catalog
