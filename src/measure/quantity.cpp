#include "measure/quantity.h"

#include <algorithm>

namespace dtrain::measure {

using enum Quantity;
using enum QuantityKind;
using enum QuantityScope;

const std::array<QuantityRow, kQuantities>& quantity_rows() {
  static constexpr std::array<QuantityRow, kQuantities> kRows = {
#define DTRAIN_QUANTITY(name, ...) QuantityRow{__VA_ARGS__},
#include "measure/quantities.def"
#undef DTRAIN_QUANTITY
  };
  return kRows;
}

const QuantityRow& row_of(Quantity quantity) {
  return quantity_rows()[static_cast<size_t>(quantity)];
}

const std::array<Quantity, kQuantities>& all_quantities() {
  static constexpr std::array<Quantity, kQuantities> kAll = {
#define DTRAIN_QUANTITY(name, ...) Quantity::name,
#include "measure/quantities.def"
#undef DTRAIN_QUANTITY
  };
  return kAll;
}

std::string_view help_of(Quantity quantity) {
  const QuantityRow& row = row_of(quantity);
  if (!row.help.empty() || row.metric.empty()) return row.help;
  return std::ranges::find(quantity_rows(), row.metric, &QuantityRow::metric)->help;
}

}  // namespace dtrain::measure
