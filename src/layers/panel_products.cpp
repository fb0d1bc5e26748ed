#include "layers/panel_products.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "os/vector_set.h"

namespace dtrain::layers {
namespace {

using Loops = PanelLoops;
#define DTRAIN_LOOPS "layers/panel_products.inc"
#include "layers/vector_sets.inc"

}  // namespace

const PanelLoops& panel_loops() { return loops(); }

}  // namespace dtrain::layers
