#include "models/pointer_network.h"

#include <cmath>
#include <limits>

#include "layers/additive_attention.h"
#include "layers/lengths.h"
#include "models/initial_values.h"

namespace dtrain::models {
namespace {

namespace nn = torch::nn;

constexpr catalog::SetLayers kNet = catalog::kPointerNetwork;
static_assert(kNet.encoder.layers == 2);  // encode() runs them one by one
constexpr int64_t kEncoderDropout = 0;    // number of the dropout layer

class AttentionParameters : public nn::Module {};

// The features [B, features] of the chosen elements [B], marked as visited.
at::Tensor visited_rows(const at::Tensor& elements, const at::Tensor& chosen) {
  const at::Tensor index = chosen.view({-1, 1, 1}).expand({-1, 1, elements.size(2)});
  at::Tensor rows = elements.gather(1, index).squeeze(1);
  rows.select(1, -1).fill_(1);
  return rows;
}

}  // namespace

PointerNetwork::PointerNetwork(const PointerNetworkOptions& options) {
  const int64_t hidden = options.hidden;
  const auto lstm = [&](const char* name, int64_t count) {
    return register_module(
        name, std::make_shared<layers::LstmParameters>(options.features, hidden, count));
  };
  encoder_ = lstm(kNet.encoder.name, kNet.encoder.layers);
  dropout_ = register_module("dropout", layers::KeyedDropout(options.dropout, kEncoderDropout));
  decoder_ = lstm(kNet.decoder, 1);
  const auto attention =
      register_module(kNet.attention.name, std::make_shared<AttentionParameters>());
  const auto linear = [&](const char* name, int64_t outputs) {
    return attention->register_module(name,
                                      nn::Linear(nn::LinearOptions(hidden, outputs).bias(false)));
  };
  key_ = linear(kNet.attention.key, hidden);
  query_ = linear(kNet.attention.query, hidden);
  v_ = linear(kNet.attention.v, 1);

  const at::NoGradGuard no_grad;
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  for (const auto& item : named_parameters()) {
    item.value().uniform_(-bound, bound, keyed_generator(options.seed, item.key()));
  }
}

PointerNetwork::Memory PointerNetwork::encode(const Sets& sets) {
  if (sets.padded && layers::runs_packed(sets.elements)) return encode_packed(sets);
  const at::Tensor rows = sets.elements.transpose(0, 1).contiguous();
  const at::Tensor zeros = at::zeros({rows.size(1), key_->weight.size(0)}, rows.options());
  const at::Tensor states =
      dropout_->forward_time_first(layers::run_lstm(encoder_->layer(0), rows, zeros, zeros).states);
  const layers::LstmLayer second = encoder_->layer(1);
  const layers::LstmResult result =
      sets.padded ? layers::run_padded_lstm(second, states, sets.lengths, zeros, zeros)
                  : layers::run_lstm(second, states, zeros, zeros);
  return {key_->forward(result.states), result.h, result.c, {}};
}

PointerNetwork::Memory PointerNetwork::encode_packed(const Sets& sets) {
  const at::Tensor lengths = sets.lengths.contiguous();
  const layers::PackedSteps steps =
      layers::pack_by_length(lengths.const_data_ptr<int64_t>(), lengths.numel());
  const at::Tensor rows =
      layers::pack(sets.elements.index_select(0, steps.indices()).transpose(0, 1), steps);
  const at::Tensor zeros = at::zeros({lengths.numel(), key_->weight.size(0)}, rows.options());
  const auto run = [&](int64_t layer, const at::Tensor& x) {
    return layers::run_packed_lstm(encoder_->layer(layer), x, steps, zeros, zeros);
  };
  const layers::LstmResult result = run(1, dropout_->forward_packed(run(0, rows).states, steps));
  const at::Tensor keys =
      layers::unpack(key_->forward(result.states), steps, sets.elements.size(1));
  return {keys, result.h, result.c, steps};
}

// The decoder's rows [T, B, features]: zeros, then the elements chosen at all steps but the last.
at::Tensor PointerNetwork::fed_rows(const at::Tensor& elements, const at::Tensor& fed) {
  const int64_t batch = elements.size(0), steps = elements.size(1), features = elements.size(2);
  const at::Tensor rows = at::zeros({steps, batch, features}, elements.options());
  if (steps > 1) {
    const at::Tensor before = fed.slice(1, 0, steps - 1).clamp(0, steps - 1);
    const at::Tensor chosen = elements.gather(1, before.unsqueeze(2).expand({-1, -1, features}));
    rows.slice(0, 1).copy_(chosen.transpose(0, 1));
    rows.slice(0, 1).select(2, -1).fill_(1);
  }
  return rows;
}

at::Tensor PointerNetwork::losses(const Sets& sets, const Memory& memory, const at::Tensor& order,
                                  const at::Tensor& fed) {
  const at::Tensor v = v_->weight.view({-1});
  if (!memory.packed) {
    const layers::LstmResult decoded =
        layers::run_lstm(decoder_->layer(0), fed_rows(sets.elements, fed), memory.h, memory.c);
    return layers::pointer_losses(memory.keys, query_->forward(decoded.states), v, order,
                                  sets.lengths);
  }
  const layers::PackedSteps& steps = *memory.packed;
  const auto sorted = [by = steps.indices()](const at::Tensor& x) { return x.index_select(0, by); };
  const at::Tensor rows = layers::pack(fed_rows(sorted(sets.elements), sorted(fed)), steps);
  const at::Tensor decoded =
      layers::run_packed_lstm(decoder_->layer(0), rows, steps, memory.h, memory.c).states;
  const at::Tensor queries = layers::unpack(query_->forward(decoded), steps, fed.size(1));
  return layers::pointer_losses(memory.keys, queries, v, sorted(order), sorted(sets.lengths))
      .index_select(0, steps.inverse());
}

at::Tensor PointerNetwork::choose(const Sets& sets, const Memory& memory, const at::Tensor& order) {
  const at::NoGradGuard no_grad;
  if (memory.packed) {
    const auto sorted = [by = memory.packed->indices()](const at::Tensor& x) {
      return x.defined() ? x.index_select(0, by) : x;
    };
    const Sets in_order{sorted(sets.elements), sorted(sets.lengths), sets.padded};
    return choose(in_order, {memory.keys, memory.h, memory.c, {}}, sorted(order))
        .index_select(0, memory.packed->inverse());
  }
  const int64_t batch = sets.elements.size(0), steps = sets.elements.size(1);
  const layers::LstmLayer layer = decoder_->layer(0);
  const at::Tensor v = v_->weight.view({-1});
  const at::Tensor padded = layers::padded_positions(sets.lengths, steps);
  const at::Tensor visited = padded.clone();
  const at::Tensor choices = at::empty({batch, steps}, sets.lengths.options());
  at::Tensor row = at::zeros({batch, sets.elements.size(2)}, sets.elements.options());
  at::Tensor h = memory.h, c = memory.c;
  for (int64_t t = 0; t < steps; ++t) {
    std::tie(h, c) = layers::run_lstm_cell(layer, row, h, c);
    const at::Tensor scores = layers::attention_scores(memory.keys, query_->forward(h), v)
                                  .masked_fill(visited, -std::numeric_limits<double>::infinity());
    const at::Tensor choice = scores.argmax(1);
    choices.select(1, t).copy_(choice);
    const at::Tensor mark = order.defined() ? order.select(1, t).clamp(0, steps - 1) : choice;
    visited.scatter_(1, mark.unsqueeze(1), true);
    row = visited_rows(sets.elements, choice);
  }
  return choices.masked_fill_(padded, -1);
}

at::Tensor PointerNetwork::forward(at::Tensor elements) {
  const at::Tensor lengths =
      at::full({elements.size(0)}, elements.size(1), elements.options().dtype(at::kLong));
  const Sets sets{elements, lengths, /*padded=*/false};
  return choose(sets, encode(sets));
}

}  // namespace dtrain::models
