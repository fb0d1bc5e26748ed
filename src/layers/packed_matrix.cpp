#include "layers/packed_matrix.h"

#include <algorithm>

#include "core/check.h"
#include "layers/intra_op.h"

namespace dtrain::layers {
namespace {

constexpr int64_t kBlockRows = 96;  // that stay in the second-level cache while all tiles pass
constexpr int64_t kLeastPerThread = int64_t{1}
                                    << 18;  // multiplications: waking a thread takes as long as a part of that

at::Tensor tiles_of(const at::Tensor& matrix, int64_t tile) {
  const int64_t inner = matrix.size(0), columns = matrix.size(1), tiles = (columns + tile - 1) / tile;
  const at::Tensor padded = columns % tile == 0 ? matrix : at::constant_pad_nd(matrix, {0, tiles * tile - columns});
  return padded.view({inner, tiles, tile}).transpose(0, 1).contiguous();
}

}  // namespace

PackedMatrix::PackedMatrix(const at::Tensor& matrix)
    : inner_(matrix.size(0)), columns_(matrix.size(1)), matrix_(matrix.detach()) {
  DTRAIN_CHECK(matrix.is_cpu() && (matrix.scalar_type() == at::kFloat || matrix.scalar_type() == at::kDouble),
               "a packed matrix of ", c10::toString(matrix.scalar_type()), " on ", matrix.device());
  if (matrix.scalar_type() == at::kDouble) return;
  loops_ = &matrix_loops();
  matrix_ = tiles_of(matrix_, loops_->tile);
}

void PackedMatrix::multiply(const at::Tensor& x, const at::Tensor& start, at::Tensor y) const {
  if (loops_ == nullptr) {
    at::addmm_out(y, start, x, matrix_);
    return;
  }
  run(x, start.const_data_ptr<float>(), y);
}

void PackedMatrix::add_product(const at::Tensor& x, at::Tensor y) const {
  if (loops_ == nullptr) {
    y.addmm_(x, matrix_);
    return;
  }
  run(x, nullptr, y);
}

void PackedMatrix::run(const at::Tensor& x, const float* start, const at::Tensor& y) const {
  const int64_t rows = x.size(0), tiles = matrix_.size(0);
  DTRAIN_CHECK(
      x.size(1) == inner_ && y.size(0) == rows && y.size(1) == columns_ && x.is_contiguous() && y.is_contiguous(),
      "a product of ", x.sizes(), " and [", inner_, ", ", columns_, "] into ", y.sizes());
  const MatrixProduct product{.x = x.const_data_ptr<float>(),
                              .x_stride = inner_,
                              .tiles = matrix_.const_data_ptr<float>(),
                              .inner = inner_,
                              .columns = columns_,
                              .start = start,
                              .y = y.mutable_data_ptr<float>(),
                              .y_stride = columns_};
  const int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  if (blocks > 1) {
    intra_op_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        loops_->multiply(product, block * kBlockRows, std::min(rows, (block + 1) * kBlockRows), 0, tiles);
      }
    });
    return;
  }
  const int64_t grain = 1 + kLeastPerThread / std::max<int64_t>(1, rows * inner_ * loops_->tile);
  intra_op_for(0, tiles, grain, [&](int64_t begin, int64_t end) { loops_->multiply(product, 0, rows, begin, end); });
}

}  // namespace dtrain::layers
