#pragma once

// What the environment says before MPI_Init, and what only the environment says: the launcher's
// variables, and those by which users steer the libraries below dtrain. Who takes part in the job
// is in World (world.h), which is from MPI. Thread-safety: any thread, while no other one changes
// the environment.

#include <span>
#include <string>
#include <vector>

namespace dtrain::dist {

// The launcher's hints before MPI_Init: this process's rank, and the one on its host (0 if there is
// none), which decide who prints early errors; and the number of processes that it started (1 if it
// does not say), for commands that do not use MPI. MPI_Init sets PMIX_RANK in a lone process too,
// so whether a launcher started the process is asked before it.
int launcher_rank_hint();
int launcher_local_rank_hint();
int launcher_size_hint();

// NAME in the environment of the ranks of `dtrain launch`, which reads their supervisor_lines.h.
inline constexpr const char* kSupervised = "DTRAIN_SUPERVISED";
bool has_supervisor();

// All variables of this process: NAME=VALUE.
std::vector<std::string> environment();
// `ours` for a process that a rank starts and that has to run by itself: without what tells a
// process that mpirun or srun started it, and with the one GPU that is number `gpu` for this
// process as the only one that CUDA shows; -1: no GPU, and CUDA is left as it is. Pure.
std::vector<std::string> environment_of_lone_process(std::span<const std::string> ours, int gpu);

// The value of an environment variable by which users steer a library below dtrain
// (NCCL_P2P_DISABLE), for `doctor`; "" if it is not set. dtrain itself is steered by its
// configuration alone.
std::string library_variable(const char* name);

// The variables themselves, for the start of MPI (mpi_session.cpp).
bool is_set(const char* name);
int launcher_number(const char* name, int fallback);  // `fallback`: not set, or no number
bool under_mpirun();
// Tasks of the srun step that started this process; 1 outside of srun. The shell of salloc or a
// batch script has SLURM_NTASKS too, but no step; a single process there is intended.
int tasks_of_step();

}  // namespace dtrain::dist
