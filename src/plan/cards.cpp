#include "plan/cards.h"

#include <string>

#include "core/error.h"
#include "core/printable.h"
#include "core/strings.h"

namespace dtrain::plan {

const std::vector<Card>& known_cards() {
  static const std::vector<Card> all = {
      {"rtx3060", 12},  {"rtx3080", 10}, {"rtx3090", 24},  {"rtx4060", 8}, {"rtx4090", 24}, {"rtx5090", 32}, {"t4", 15},
      {"v100-16g", 16}, {"v100", 32},    {"a100-40g", 39}, {"a100", 79},   {"h100", 79},    {"h200", 139}};
  return all;
}

const Card& card_named(std::string_view name) {
  std::vector<std::string> names;
  for (const Card& card : known_cards()) {
    if (card.name == name) return card;
    names.emplace_back(card.name);
  }
  const std::string near = nearest(name, names);
  throw UsageError(str("--card: there is no '", printable(name), "'",
                       near.empty() ? "" : str("; did you mean '", near, "'?"), " Known are ", join(names, ", ")));
}

}  // namespace dtrain::plan
