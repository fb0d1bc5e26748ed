#pragma once

// DTRAIN_CHECK(condition, parts of a message...) is for conditions that only a bug in dtrain can
// break. For what a user can cause, throw one of the named errors instead.

#include "core/error.h"
#include "text/strings.h"

#define DTRAIN_CHECK(condition, ...)                                                            \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      throw ::dtrain::Error(::dtrain::str("internal error at ", __FILE__, ":", __LINE__,        \
                                          ": " #condition, " does not hold. ", ##__VA_ARGS__)); \
    }                                                                                           \
  } while (false)
