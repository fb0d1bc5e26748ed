// Measures layers/additive_attention.h: training steps of the pointer network (forward and
// backward, float32, hidden size 256, no dropout) with pointer_losses() and with the same formula
// composed of ATen operators, on the CPU.
//   attention_step [BATCH [STEPS [ROUNDS]]]      the defaults are 64, 6 and 5
// Each round runs STEPS steps of both forms, alternately, after one step that is not timed. For
// sets of 20 and of 50 elements it prints the median, least and greatest number of sets per second
// over the rounds, how many times as fast pointer_losses() is, the peak of the tensors' memory in a
// step, and how far the losses are apart.
// OMP_NUM_THREADS sets the number of threads.

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "device/tensor_memory.h"
#include "layers/additive_attention.h"
#include "layers/lengths.h"
#include "layers/lstm.h"

namespace {

using namespace dtrain;

constexpr int64_t kHidden = 256, kFeatures = 8;

// The formula of pointer_losses() in ATen operators; holds [T, B, T, H].
at::Tensor composed_losses(const at::Tensor& keys, const at::Tensor& queries, const at::Tensor& v,
                           const at::Tensor& order, const at::Tensor& lengths) {
  const int64_t steps = keys.size(0);
  const at::Tensor scores =
      (keys.unsqueeze(0) + queries.unsqueeze(1)).tanh().matmul(v).permute({2, 0, 1});  // [B, T, T]
  const at::Tensor valid = layers::valid_positions(lengths, steps);
  const at::Tensor chosen = at::one_hot(order.clamp_min(0), steps);
  const at::Tensor earlier = chosen.cumsum(1) - chosen;
  const at::Tensor closed = earlier.gt(0).logical_or(valid.logical_not().unsqueeze(1));
  const at::Tensor log_p =
      scores.masked_fill(closed, std::numeric_limits<float>::lowest()).log_softmax(2);
  return (-log_p.gather(2, order.clamp_min(0).unsqueeze(2)).squeeze(2) * valid).sum(1);
}

struct Network {
  layers::LstmParameters encoder{kFeatures, kHidden, 2}, decoder{kFeatures, kHidden, 1};
  at::Tensor key, query, v;

  Network()
      : key(at::empty({kHidden, kHidden})),
        query(at::empty({kHidden, kHidden})),
        v(at::empty({kHidden})) {
    const at::NoGradGuard no_grad;
    at::manual_seed(1);
    for (at::Tensor& p : parameters()) p.uniform_(-1.0 / 16, 1.0 / 16).set_requires_grad(true);
  }

  std::vector<at::Tensor> parameters() const {
    std::vector<at::Tensor> all = encoder.parameters();
    for (const at::Tensor& p : decoder.parameters()) all.push_back(p);
    all.insert(all.end(), {key, query, v});
    return all;
  }

  // elements, fed [T, B, features]; order [B, T]; lengths [B]
  at::Tensor losses(const at::Tensor& elements, const at::Tensor& fed, const at::Tensor& order,
                    const at::Tensor& lengths, decltype(&layers::pointer_losses) attention) const {
    const at::Tensor zeros = at::zeros({elements.size(1), kHidden});
    const at::Tensor first = layers::run_lstm(encoder.layer(0), elements, zeros, zeros).states;
    const layers::LstmResult encoded = layers::run_lstm(encoder.layer(1), first, zeros, zeros);
    const at::Tensor decoded = layers::run_lstm(decoder.layer(0), fed, encoded.h, encoded.c).states;
    return attention(encoded.states.matmul(key.t()), decoded.matmul(query.t()), v, order, lengths);
  }
};

struct Form {
  const char* name;
  decltype(&layers::pointer_losses) attention;
  std::vector<double> rates = {};  // sets per second, one per round
  int64_t peak = 0;                // bytes
  double loss = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(int64_t elements, int64_t batch, int64_t steps, int64_t rounds) {
  const Network network;
  const at::Tensor sets = at::rand({elements, batch, kFeatures});
  const at::Tensor order = at::rand({batch, elements}).argsort(int64_t{1});
  const at::Tensor fed = at::rand({elements, batch, kFeatures});
  const at::Tensor lengths = at::full({batch}, elements, at::kLong);
  Form forms[] = {{"pointer_losses", &layers::pointer_losses}, {"composed", &composed_losses}};
  const auto step = [&](Form& form) {
    const at::Tensor loss = network.losses(sets, fed, order, lengths, form.attention).sum();
    loss.backward();
    for (at::Tensor& p : network.parameters()) p.mutable_grad().zero_();
    return loss.item<double>();
  };
  for (Form& form : forms) {
    const device::TensorMemory memory;
    form.loss = step(form);
    form.peak = memory.peak();
  }
  for (int64_t round = 0; round < rounds; ++round) {
    for (Form& form : forms) {
      const auto begin = std::chrono::steady_clock::now();
      for (int64_t i = 0; i < steps; ++i) step(form);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      form.rates.push_back(static_cast<double>(batch * steps) / seconds.count());
    }
  }
  for (const Form& form : forms) {
    const auto [least, most] = std::minmax_element(form.rates.begin(), form.rates.end());
    std::printf(
        "%3lld %-15s %9.1f %9.1f %9.1f %7.2f x %9.1f %9.1e\n", static_cast<long long>(elements),
        form.name, median(form.rates), *least, *most, median(forms[0].rates) / median(form.rates),
        static_cast<double>(form.peak) / (1 << 20), std::abs(form.loss / forms[0].loss - 1));
  }
}

}  // namespace

int main(int count, char** words) {
  const auto number = [&](int index, int64_t fallback) {
    return count > index ? std::stoll(words[index]) : fallback;
  };
  const int64_t batch = number(1, 64), steps = number(2, 6), rounds = number(3, 5);
  at::globalContext().setFlushDenormal(true);  // as dtrain does
  std::printf("batch %lld, %d threads, %lld alternate rounds of %lld steps\n",
              static_cast<long long>(batch), at::get_num_threads(), static_cast<long long>(rounds),
              static_cast<long long>(steps));
  std::printf("  T attention          sets/s       min       max  speedup  peak MiB     apart\n");
  for (const int64_t elements : {20, 50}) measure(elements, batch, steps, rounds);
}
