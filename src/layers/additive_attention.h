#pragma once

// Additive attention (Bahdanau, Cho, Bengio 2015) of a pointer network (Vinyals, Fortunato, Jaitly 2015), all decoder
// steps at once: score[t][j] = v . tanh(keys[j] + queries[t]), softmax over the elements that no earlier step chose.
//
// One autograd function: the [T, B, T, H] tensor of all tanh never exists. Forward walks over the steps and keeps only
// the softmax, [B, T, T]; backward computes tanh again, column by column. Elements that were already chosen are not
// scored at all, which is half of the work. On the CPU vectors of AVX-512, AVX2 or any machine, parallel over the
// batch; a sample's results do not depend on its batch, nor on the number of threads. float32 is within 1e-6 of the
// naive form (additive_attention_body.inc), float64 exact; lower precision is computed in float32.

#include <torch/torch.h>

namespace dtrain::layers {

// keys and queries [T, B, H] (time first), v [H]; order int64 [B, T]: what each step chose; lengths int64 [B]: how many
// elements and steps of the sample count, taken as within 0 and T. Returns [B] in float32 (float64 for float64): the
// sum over the steps t < lengths[b] of the negative log-likelihood of order[b][t]; infinite when an order names an
// element twice or one beyond the length. Differentiable by keys, queries and v.
at::Tensor pointer_losses(const at::Tensor& keys, const at::Tensor& queries, const at::Tensor& v,
                          const at::Tensor& order, const at::Tensor& lengths);

// The scores of one step, [B, T], from keys [T, B, H] and one query [B, H].
at::Tensor attention_scores(const at::Tensor& keys, const at::Tensor& query, const at::Tensor& v);

}  // namespace dtrain::layers
