#pragma once

// The words of other trainers for what dtrain calls otherwise: gpus, learning_rate, grad-clip.
// Suggestions for unknown keys and flags use them, because the nearest name by spelling would be
// another thing. Pure.

#include <string_view>
#include <vector>

namespace dtrain::config {

// `word` in any case, with '-' or '_'. "" for a word that is not in the table.
std::string_view key_called(std::string_view word);  // "optimizer.lr" for "learning_rate"
std::string_view advice_about(
    std::string_view word);                    // what takes the place of "gpus", which is no key
std::vector<std::string_view> synonym_keys();  // all that key_called() can return

}  // namespace dtrain::config
