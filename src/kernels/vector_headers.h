#pragma once

// The headers of loops that vector_sets.inc compiles, which is included inside of a namespace.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "os/vector_set.h"

#ifdef DTRAIN_X86_VECTORS
#include <immintrin.h>
#endif
