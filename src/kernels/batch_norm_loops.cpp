#include "kernels/batch_norm_loops.h"

#include <tuple>

#include "core/host_device.h"
#include "kernels/vector_headers.h"

namespace dtrain::kernels::batch_norm {
namespace by_vector_set {
namespace {

using Loops = std::tuple<NormLoops<double>, NormLoops<float>, NormLoops<uint16_t>>;
#define DTRAIN_LOOPS "kernels/batch_norm_loops.inc"
#include "kernels/vector_sets.inc"

}  // namespace
}  // namespace by_vector_set

template <typename Store>
const NormLoops<Store>& loops() {
  return std::get<NormLoops<Store>>(by_vector_set::loops());
}
template const NormLoops<double>& loops<double>();
template const NormLoops<float>& loops<float>();
template const NormLoops<uint16_t>& loops<uint16_t>();

}  // namespace dtrain::kernels::batch_norm
