#pragma once

// For a process that a rank starts and that has to run by itself, without MPI's other ranks, on the
// device of the rank.

#include <span>
#include <string>
#include <vector>

namespace dtrain::dist {

std::vector<std::string> environment();  // variables of this process: NAME=VALUE

// `ours` without what tells a process that mpirun or srun started it, and with the one GPU that is
// number `gpu` for this process as the only one that CUDA shows; -1: the process uses no GPU, and
// CUDA is left as it is. Pure.
std::vector<std::string> environment_of_lone_process(std::span<const std::string> ours, int gpu);

}  // namespace dtrain::dist
