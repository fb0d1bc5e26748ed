#pragma once

// What a rank and its host measured in a window: from one call of ResourceMeter::sample() to the
// next. Plain values, which travel between ranks as their bytes.

#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "measure/quantity.h"
#include "measure/step_times.h"

namespace dtrain::measure {

// One value per quantity. NaN: it was not measured.
class Values {
 public:
  Values() { all_.fill(kUnknown); }
  Values(std::initializer_list<std::pair<Quantity, double>> known) : Values() {
    for (const auto& [quantity, value] : known) (*this)[quantity] = value;
  }

  double& operator[](Quantity quantity) { return all_[static_cast<size_t>(quantity)]; }
  double operator[](Quantity quantity) const { return all_[static_cast<size_t>(quantity)]; }
  bool knows(Quantity quantity) const { return std::isfinite((*this)[quantity]); }
  double or_zero(Quantity quantity) const { return knows(quantity) ? (*this)[quantity] : 0; }

  // Takes those that `other` knows.
  void set(const Values& other);

 private:
  std::array<double, kQuantities> all_;
};

using CoreMask = std::array<uint64_t, 16>;  // one bit for each core; none: unknown

struct RankSample {
  double seconds = 0;  // length of the window by the wall clock
  double steps = 0;    // optimizer steps that ended in it
  Values values = {};  // values of the window; QuantityKind says what each is
  CoreMask allowed_cores = {};
};

// A rank between two logging steps, as the sinks receive it: means per optimizer step.
struct RankMeans {
  int rank = 0;
  StepTimes times = {};
  Values values = {};
};

// Consecutive windows of a rank as one, in their order.
class Total {
 public:
  Total() = default;
  // Begins at the end of earlier windows, so that a kTotal grows from what it was there.
  static Total after(const Total& earlier);

  void add(const RankSample&);
  Values per_step() const;
  double sum(Quantity) const;  // only for a kSum; unknown where it was never measured

 private:
  struct Part {
    // The sum of the values times their weights; of kMax and kLast the value
    double value = kUnknown;
    double weight = 0;
    // Only for kTotal: its value at the end of the first window, or of `earlier` in after()
    double begin = kUnknown;
  };
  std::array<Part, kQuantities> parts_ = {};
};

Values per_step(const RankSample&);

// The window that has these values per step.
RankSample sample_of(const Values& per_step, double steps);

}  // namespace dtrain::measure
