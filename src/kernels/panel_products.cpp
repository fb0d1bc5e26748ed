#include "kernels/panel_products.h"

#include "kernels/vector_headers.h"

namespace dtrain::kernels {
namespace {

using Loops = PanelLoops;
#define DTRAIN_LOOPS "kernels/panel_products.inc"
#include "kernels/vector_sets.inc"

}  // namespace

const PanelLoops& panel_loops() { return loops(); }

}  // namespace dtrain::kernels
