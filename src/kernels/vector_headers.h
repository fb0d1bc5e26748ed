#pragma once

// The headers that loops compiled by vector_sets.inc use. They cannot be included there, inside of
// a namespace.

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
