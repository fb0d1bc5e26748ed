#pragma once

#include <gtest/gtest.h>

#include <string>

namespace dtrain::testing {

// Runs `action`, which must throw an Exception whose message has every one of `parts`.
template <typename Exception, typename Action>
void expect_error(Action&& action, std::initializer_list<std::string> parts) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown; expected a message with: " << *parts.begin();
  } catch (const Exception& e) {
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << "no \"" << part << "\" in: " << e.what();
    }
  }
}

}  // namespace dtrain::testing
