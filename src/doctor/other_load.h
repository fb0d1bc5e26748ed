#pragma once

// How busy a host is before the run begins. Pure functions of two readings of its counters.

#include <optional>
#include <span>

#include "os/counters.h"

namespace dtrain::doctor {

struct Reading {
  os::MachineCounters machine;
  os::ProcessCounters process;  // counters of this rank
};

// The cores that this rank kept busy between two readings.
std::optional<double> own_cpu(const Reading& before, const Reading& after);
// The cores that others kept busy on the machine: all that were busy less those of the ranks of
// this job there.
std::optional<double> other_cpu(const Reading& before, const Reading& after,
                                std::span<const double> cpu_of_ranks);
// The cores that the hypervisor gave to other machines while this one had work for them.
std::optional<double> stolen_cpu(const Reading& before, const Reading& after);

}  // namespace dtrain::doctor
