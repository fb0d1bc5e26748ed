#pragma once

// DTRAIN_CHECK is for what only a bug in dtrain can break; what a user can break throws a named Error instead.

#include "core/error.h"
#include "core/strings.h"

#define DTRAIN_CHECK(condition, ...)                                                                      \
  do {                                                                                                    \
    if (!(condition)) {                                                                                   \
      throw ::dtrain::Error(::dtrain::str("internal error at ", __FILE__, ":", __LINE__, ": " #condition, \
                                          " does not hold. ", ##__VA_ARGS__));                            \
    }                                                                                                     \
  } while (false)
