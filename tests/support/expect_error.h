#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dtrain::testing {

// Runs `action`, which must throw an Exception whose message contains all of `parts`.
template <typename Exception, typename Action>
void expect_error(Action&& action, const std::vector<std::string>& parts) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown; expected a message that contains: " << parts.at(0);
  } catch (const Exception& e) {
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos)
          << "no \"" << part << "\" in: " << e.what();
    }
  }
}

}  // namespace dtrain::testing
