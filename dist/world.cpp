#include "dist/world.h"

#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>

#include "core/check.h"
#include "dist/backoff.h"
#include "dist/mpi_check.h"

namespace dtrain::dist {
namespace {

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

int number(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text && *text ? std::atoi(text) : fallback;
}

bool under_mpirun() { return is_set("OMPI_COMM_WORLD_RANK"); }
bool under_srun() { return is_set("SLURM_STEP_ID") && !under_mpirun(); }

// Tasks of the srun step that started this process; 1 outside of srun: the shell of salloc or a batch script has
// SLURM_NTASKS too, but no step, and a single process there is what its user meant.
int tasks_of_step() { return under_srun() ? number("SLURM_STEP_NUM_TASKS", number("SLURM_NTASKS", 1)) : 1; }

[[noreturn]] void refuse_singletons(int tasks) {
  throw UsageError(
      str("srun started ", tasks, " tasks, but MPI sees one process: without PMIx each task would train alone. ",
          "Start with `srun --mpi=pmix dtrain ...` (`srun --mpi=list` shows what this Slurm has) or, in the "
          "allocation, with `mpirun -np ",
          tasks, " dtrain ...`"));
}

// Open MPI without Slurm support ends any process that sees SLURM_NODELIST and no PMIx, even one that is meant to be
// alone (in a batch script, an salloc shell, `srun -n 1`). Such a process initialises without that variable.
class HiddenNodeList {
 public:
  HiddenNodeList() {
    const char* value = std::getenv(kName);
    if (!value || under_mpirun() || is_set("PMIX_RANK") || is_set("PMI_RANK")) return;
    value_ = value;
    ::unsetenv(kName);
  }
  ~HiddenNodeList() {
    if (!value_.empty()) ::setenv(kName, value_.c_str(), 1);
  }

 private:
  static constexpr const char* kName = "SLURM_NODELIST";
  std::string value_;
};

void initialise(int* argc, char*** argv) {
  // Copying through shared memory beats the kernel's copy up to 25 MB, and the latter is forbidden in containers.
  ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", /*overwrite=*/0);
  const HiddenNodeList hidden;
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (provided < MPI_THREAD_MULTIPLE) {
    MPI_Finalize();
    throw CommError(str("this MPI gives thread level ", provided,
                        ", and dtrain talks from several threads (MPI_THREAD_", "MULTIPLE, ", int{MPI_THREAD_MULTIPLE},
                        "): use an MPI that was built with threads"));
  }
}

World look_around() {
  World world;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &world.rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &world.size), "MPI_Comm_size");
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world.rank, MPI_INFO_NULL, &host),
            "MPI_Comm_split_type");
  check_mpi(MPI_Comm_rank(host, &world.local_rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(host, &world.local_size), "MPI_Comm_size");
  check_mpi(MPI_Comm_free(&host), "MPI_Comm_free");
  char name[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  check_mpi(MPI_Get_processor_name(name, &length), "MPI_Get_processor_name");
  world.node.assign(name, static_cast<size_t>(length));
  return world;
}

}  // namespace

int launcher_rank_hint() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"}) {
    if (is_set(name)) return number(name, 0);
  }
  return under_srun() ? number("SLURM_PROCID", 0) : 0;
}

int launcher_size_hint() { return under_mpirun() ? number("OMPI_COMM_WORLD_SIZE", 1) : tasks_of_step(); }

MpiSession::MpiSession(int* argc, char*** argv) {
  // Asked before MPI_Init, which adds variables of its own.
  const int tasks = tasks_of_step();
  const bool launched = under_mpirun() || is_set("PMIX_RANK");
  if (tasks > 1 && !is_set("PMIX_RANK") && !is_set("PMI_RANK")) refuse_singletons(tasks);
  initialise(argc, argv);
  world_ = look_around();
  world_.launched = launched;
  if (tasks > 1 && world_.size == 1) {  // PMI of a version that this MPI does not speak
    MPI_Finalize();
    refuse_singletons(tasks);
  }
  open_ = true;
}

MpiSession::~MpiSession() {
  if (open_ && std::uncaught_exceptions() == 0) MPI_Finalize();
}

std::string mpi_library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  check_mpi(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  return split(std::string_view(text, static_cast<size_t>(length)), ',').front();
}

int MpiSession::close(int exit_code) {
  DTRAIN_CHECK(open_, "close() ends a session once");
  int agreed = exit_code;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(&exit_code, &agreed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &request), "MPI_Iallreduce");
  Backoff backoff;  // rank 0 may still be writing: the others wait without taking its cores
  for (int done = 0; !done;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!done) backoff.wait();
  }
  open_ = false;
  check_mpi(MPI_Finalize(), "MPI_Finalize");
  return agreed;
}

void MpiSession::abort(int exit_code) noexcept {
  try {
    // MPI_Abort asks mpirun to end the job and may wait for an answer that never comes.
    std::thread([exit_code] {
      std::this_thread::sleep_for(std::chrono::seconds(3));
      ::_exit(exit_code);
    }).detach();
  } catch (const std::exception&) {
    // No thread to be had: MPI_Abort alone must do.
  }
  if (open_) MPI_Abort(MPI_COMM_WORLD, exit_code);
  ::_exit(exit_code);
}

}  // namespace dtrain::dist
