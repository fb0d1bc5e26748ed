// The kernels of batch norm against its definition in float64, for each class of shapes.

#include "emulation/orders.h"
#include "kernels/batch_norm_blocks.h"
#include "layers/batch_norm_check.h"

namespace dtrain::layers::batch_norm {
namespace {

class BatchNorm : public emulation::InEachOrder {};
INSTANTIATE_TEST_SUITE_P(Emulated, BatchNorm, emulation::kOrders);

TEST_P(BatchNorm, AgreesWithItsDefinition) {
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    EXPECT_EQ(disagreement(kernels::batch_norm::blocks::kOnGpu, at::kCPU, type), std::nullopt)
        << c10::toString(type);
  }
}

}  // namespace
}  // namespace dtrain::layers::batch_norm
