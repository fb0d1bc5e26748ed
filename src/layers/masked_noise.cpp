#include "layers/masked_noise.h"

#include "core/check.h"
#include "kernels/intra_op.h"
#include "kernels/launch.h"

namespace dtrain::layers {
namespace {

using kernels::HiddenBlocks;
using kernels::NoiseBatch;
using kernels::NoiseKey;

template <typename T>
void on_cpu(const MaskedNoise& m, const NoiseBatch<T>& batch) {
  const NoiseKey key = batch.key();
  kernels::intra_op_for(0, batch.samples, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t length = batch.length(b), features = batch.features;
      const HiddenBlocks blocks = hidden_blocks(m, key, batch.ids[b], length);
      const T* rows = batch.rows + b * batch.longest * features;
      T* out = batch.out + b * batch.longest * features;
      bool* hidden = batch.hidden + b * batch.longest;
      for (int64_t row = 0; row < batch.longest; ++row) {
        const bool valid = row < length;
        hidden[row] = valid && is_hidden(m, blocks, row);
        const bool seen = valid && !hidden[row];
        for (int64_t e = row * features; e < (row + 1) * features; ++e)
          out[e] = seen ? noised(m, blocks, rows[e], e) : T(0);
      }
    }
  });
}

template <typename T>
void run(const MaskedNoise& m, const at::Tensor& rows, const at::Tensor& lengths,
         const RandomContext& key, const NoisedRows& result) {
  const at::Tensor ids = key.sample_ids.contiguous();
  const NoiseBatch<T> batch{rows.const_data_ptr<T>(),
                            lengths.const_data_ptr<int64_t>(),
                            ids.const_data_ptr<int64_t>(),
                            place_of(key.seed, rows.device()),
                            place_of(key.epoch, rows.device()),
                            rows.size(0),
                            rows.size(1),
                            rows.size(2),
                            result.rows.mutable_data_ptr<T>(),
                            result.hidden.mutable_data_ptr<bool>()};
  if (!rows.is_cuda()) return on_cpu(m, batch);
  kernels::launch_on(rows.device(),
                     [&](void* stream) { return hide_and_noise_on_gpu(m, batch, stream); });
}

}  // namespace

NoisedRows hide_and_noise(const at::Tensor& rows, const at::Tensor& lengths,
                          const RandomContext& key, const MaskedNoise& m) {
  DTRAIN_CHECK(m.span >= 1 && m.share >= 0 && m.share <= 1 && m.noise >= 0, "span ", m.span,
               ", share ", m.share, ", noise ", m.noise);
  const at::IntArrayRef each(rows.sizes().data(), 1);
  const at::Tensor& ids = key.sample_ids;
  DTRAIN_CHECK(rows.dim() == 3 && lengths.sizes() == each && ids.sizes() == each &&
                   lengths.device() == rows.device() && ids.device() == rows.device(),
               "rows of shape ", rows.sizes(), " on ", rows.device(), ", lengths ", lengths.sizes(),
               " on ", lengths.device(), ", ids ", ids.sizes(), " on ", ids.device());
  const at::NoGradGuard no_grad;
  const at::Tensor source = rows.contiguous();
  const NoisedRows result{at::empty_like(source),
                          at::empty({rows.size(0), rows.size(1)}, rows.options().dtype(at::kBool))};
  const at::Tensor n = lengths.contiguous();
  if (rows.scalar_type() == at::kDouble) {
    run<double>(m, source, n, key, result);
  } else {
    DTRAIN_CHECK(rows.scalar_type() == at::kFloat, "rows of ", rows.scalar_type());
    run<float>(m, source, n, key, result);
  }
  return result;
}

}  // namespace dtrain::layers
