#pragma once

// Additive attention (Bahdanau, Cho, Bengio 2015) of a pointer network (Vinyals, Fortunato, Jaitly
// 2015), for all decoder steps at once: score[t][j] = v . tanh(keys[j] + queries[t]), softmax over
// the elements that no earlier step chose.
//
// This is one autograd function that never holds the [T, B, T, H] tensor of all tanh values.
// Forward iterates over the steps and saves only the softmax, [B, T, T]; backward computes tanh
// again, column by column. Elements that were chosen before are not scored, which halves the work.
// On the CPU it uses AVX-512, AVX2 or generic vectors, chosen at run time, and is parallel over the
// batch; on the GPU it uses CUDA kernels. A sample's results depend neither on its batch nor on the
// number of threads.
//
// What it gains (build/bench/attention_step 64 3 3, 2 cores): a training step of the same C++
// network is 1.36 times as fast as with the formula composed of ATen operators at T = 20 and 2.00
// times as fast at T = 50, and the peak of the tensors' memory is 76 instead of 139 MiB and 180
// instead of 626 MiB.
//
// Accuracy: in float32 the absolute error of a tanh is below 1e-6 (additive_attention_body.inc);
// float64 uses the tanh of the C library; lower precisions are computed in float32.

#include <torch/types.h>

namespace dtrain::layers {

// keys and queries [T, B, H] (time first), v [H]; order int64 [B, T]: the element that each step
// chose; lengths int64 [B]: the number of elements and steps of each sample, limited to [0, T].
// Returns [B] in float32 (float64 for float64 inputs): the sum over the steps t < lengths[b] of the
// negative log-likelihood of order[b][t], which is infinite if the order has an element twice or
// one beyond the length. Differentiable with respect to keys, queries and v.
at::Tensor pointer_losses(const at::Tensor& keys, const at::Tensor& queries, const at::Tensor& v,
                          const at::Tensor& order, const at::Tensor& lengths);

// The scores [B, T] of one step, from keys [T, B, H] and one query [B, H].
at::Tensor attention_scores(const at::Tensor& keys, const at::Tensor& query, const at::Tensor& v);

}  // namespace dtrain::layers
