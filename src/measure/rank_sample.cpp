#include "measure/rank_sample.h"

namespace dtrain::measure {
namespace {

double weight_of(const QuantityRow& row, const RankSample& sample) {
  if (row.kind != QuantityKind::kMean || row.weight == Quantity::kCount) return sample.steps;
  const double weight = sample.values[row.weight];
  return std::isfinite(weight) ? weight : sample.steps;
}

// What a value adds to the sum: a kMean its product with the weight.
double part_of(const QuantityRow& row, double value, const RankSample& sample) {
  if (row.kind == QuantityKind::kMean) return value * weight_of(row, sample);
  return row.kind == QuantityKind::kRate ? value * sample.seconds : value;
}

}  // namespace

void Values::set(const Values& other) {
  for (size_t i = 0; i < all_.size(); ++i) {
    if (!std::isnan(other.all_[i])) all_[i] = other.all_[i];
  }
}

Total Total::after(const Total& earlier) {
  Total total;
  for (const Quantity quantity : all_quantities()) {
    const auto i = static_cast<size_t>(quantity);
    if (row_of(quantity).kind == QuantityKind::kTotal)
      total.parts_[i].begin = earlier.parts_[i].value;
  }
  return total;
}

void Total::add(const RankSample& sample) {
  for (const Quantity quantity : all_quantities()) {
    const double value = sample.values[quantity];
    if (!std::isfinite(value)) continue;
    const QuantityRow& row = row_of(quantity);
    const double weight = weight_of(row, sample);
    Part& part = parts_[static_cast<size_t>(quantity)];
    switch (row.kind) {
      case QuantityKind::kSum:
      case QuantityKind::kRate:
      case QuantityKind::kMean:
        if (!(weight > 0)) break;
        part.value = part_of(row, value, sample) + (part.weight > 0 ? part.value : 0);
        part.weight += weight;
        break;
      case QuantityKind::kMax:
        part.value = std::fmax(part.value, value);
        break;
      case QuantityKind::kLast:
        part.value = value;
        break;
      case QuantityKind::kTotal:
        part.value = value;
        if (std::isnan(part.begin)) {
          part.begin = value;
        } else {
          part.weight += sample.steps;
        }
        break;
    }
  }
}

Values Total::per_step() const {
  Values values;
  for (const Quantity quantity : all_quantities()) {
    const Part& part = parts_[static_cast<size_t>(quantity)];
    switch (row_of(quantity).kind) {
      case QuantityKind::kMax:
      case QuantityKind::kLast:
        values[quantity] = part.value;
        break;
      case QuantityKind::kTotal:
        if (part.weight > 0) values[quantity] = (part.value - part.begin) / part.weight;
        break;
      default:
        if (part.weight > 0) values[quantity] = part.value / part.weight;
    }
  }
  return values;
}

double Total::sum(Quantity quantity) const { return parts_[static_cast<size_t>(quantity)].value; }

Values per_step(const RankSample& sample) {
  Total total;
  total.add(sample);
  return total.per_step();
}

RankSample sample_of(const Values& per_step, double steps) {
  // With a second per step a rate is what it is per step.
  RankSample sample{.seconds = steps, .steps = steps, .values = per_step};
  for (const Quantity quantity : all_quantities()) {
    if (row_of(quantity).kind == QuantityKind::kSum) sample.values[quantity] *= steps;
  }
  return sample;
}

}  // namespace dtrain::measure
