#include "dist/mpi_session.h"

#include <mpi.h>

#include <cstdlib>
#include <exception>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/error.h"
#include "core/log.h"
#include "dist/backoff.h"
#include "dist/failure.h"
#include "dist/handshake.h"
#include "dist/launcher.h"
#include "dist/process_limits.h"
#include "os/net_address.h"
#include "text/strings.h"

namespace dtrain::dist {
namespace {

// All ranks have initialized MPI: what is left is to connect them.
constexpr double kMostSecondsToMeet = 60;

[[noreturn]] void refuse_singletons(int tasks) {
  throw UsageError(
      str("srun started ", tasks,
          " tasks, but MPI sees one process: without PMIx each task would train alone. ",
          "Start with `srun --mpi=pmix dtrain ...` (`srun --mpi=list` shows what this Slurm has) "
          "or, in the allocation, with `mpirun -np ",
          tasks, " dtrain ...`"));
}

// Open MPI without Slurm support ends any process that sees SLURM_NODELIST and no PMIx, even one
// that is meant to run alone (in a batch script, an salloc shell, `srun -n 1`). Such a process
// initializes MPI without that variable.
class HiddenNodeList {
 public:
  HiddenNodeList() {
    if (!is_set(kName) || under_mpirun() || is_set("PMIX_RANK") || is_set("PMI_RANK")) return;
    value_ = library_variable(kName);
    ::unsetenv(kName);
  }
  ~HiddenNodeList() {
    if (!value_.empty()) ::setenv(kName, value_.c_str(), 1);
  }

 private:
  static constexpr const char* kName = "SLURM_NODELIST";
  std::string value_;
};

// What Open MPI reads from the environment while it is initialized, where the user has not set it.
// Afterwards the environment is the user's again: `dtrain doctor` shows it, and other programs that
// are started see it.
class MpiVariables {
 public:
  MpiVariables() = default;
  ~MpiVariables() {
    for (const char* name : set_) ::unsetenv(name);
  }
  MpiVariables(const MpiVariables&) = delete;
  MpiVariables& operator=(const MpiVariables&) = delete;

  void set(const char* name, const char* value) {
    if (is_set(name)) return;
    ::setenv(name, value, /*overwrite=*/0);
    set_.push_back(name);
  }

 private:
  std::vector<const char*> set_;
};

// Before ranks are known, the first rank of each host speaks for it, with its name where rank 0
// is elsewhere.
std::string on_other_hosts(const std::string& message) {
  return launcher_rank_hint() == 0 ? message : str("on host ", host_name(), ": ", message);
}

// Open MPI listens on all interfaces for ranks of other hosts, also where there are none; and for a
// process without mpirun it starts a daemon, which listens too.
void listen_to_no_other_host(MpiVariables& variables) {
  const int here = launcher_number("OMPI_COMM_WORLD_LOCAL_SIZE", 0);
  if (!under_mpirun() && !is_set("PMIX_RANK") && !is_set("PMI_RANK")) {
    variables.set("OMPI_MCA_ess_singleton_isolated", "1");
    // Lone processes share the folder of their session by name: one that ends removes what another
    // one begins in.
    variables.set("OMPI_MCA_orte_create_session_dirs", "0");
    variables.set("OMPI_MCA_btl", "self");
  } else if (here > 0 && here == launcher_number("OMPI_COMM_WORLD_SIZE", 0)) {
    variables.set("OMPI_MCA_btl", "self,vader");
  }
}

void prepare_for_mpi(MpiVariables& variables) {
  // Up to 25 MB, copying through shared memory is faster than the kernel's copy, which
  // containers forbid.
  variables.set("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
  const std::string folder = library_variable("TMPDIR");
  const MpiRoom room =
      mpi_room(folder.empty() ? "/tmp" : folder, launcher_number("OMPI_COMM_WORLD_LOCAL_SIZE", 1));
  if (const std::string missing = missing_for_mpi(room); !missing.empty())
    throw UsageError(missing);
  if (const std::string why = no_shared_memory(room); !why.empty()) {
    // Otherwise Open MPI finds that out by itself, and prints a page about it.
    // Without "ofi" it would try that on this host alone, and fail to agree with the others.
    variables.set("OMPI_MCA_btl", "^vader,ofi");
    if (launcher_local_rank_hint() == 0) log::warning(on_other_hosts(why));
  }
  listen_to_no_other_host(variables);
}

void initialize_mpi(int* argc, char*** argv) {
  MpiVariables variables;
  prepare_for_mpi(variables);
  const HiddenNodeList hidden;
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (provided < MPI_THREAD_MULTIPLE) {
    MPI_Finalize();
    throw CommError(str("this MPI supports thread level ", provided,
                        ", but dtrain calls it from several threads: it needs ",
                        "MPI_THREAD_MULTIPLE (", int{MPI_THREAD_MULTIPLE},
                        "). Use an MPI that was built with threads"));
  }
}

// Addresses that several hosts have, such as 127.0.0.1, tell nothing of where a packet is from.
void meet_others(World& world) {
  const std::set<std::string> own = own_addresses();
  std::vector<Peer> peers;
  try {
    peers = shake_hands({world.node, {own.begin(), own.end()}}, world.rank, world.size,
                        kMostSecondsToMeet);
  } catch (const CommError& error) {  // no rank can wait for the others any more
    log::set_rank(world.rank, world.size, world.node);
    report(describe(error));
    abort_job(error.exit_code());
  }
  for (Peer& peer : peers) {
    std::erase_if(peer.addresses,
                  [&](const std::string& address) { return own.contains(address); });
    world.nodes.push_back(std::move(peer.node));
    world.addresses.push_back(std::move(peer.addresses));
  }
}

World find_world() {
  World world;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &world.rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &world.size), "MPI_Comm_size");
  char name[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  check_mpi(MPI_Get_processor_name(name, &length), "MPI_Get_processor_name");
  world.node.assign(name, static_cast<size_t>(length));
  meet_others(world);

  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world.rank, MPI_INFO_NULL, &host),
      "MPI_Comm_split_type");
  check_mpi(MPI_Comm_rank(host, &world.local_rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(host, &world.local_size), "MPI_Comm_size");
  world.host = world.rank;
  check_mpi(MPI_Bcast(&world.host, 1, MPI_INT, 0, host), "MPI_Bcast");
  check_mpi(MPI_Comm_free(&host), "MPI_Comm_free");
  return world;
}

}  // namespace

MpiSession::MpiSession(int* argc, char*** argv) {
  // Read before MPI_Init, which sets variables of its own.
  const int tasks = tasks_of_step();
  const bool launched = under_mpirun() || is_set("PMIX_RANK");
  if (tasks > 1 && !is_set("PMIX_RANK") && !is_set("PMI_RANK")) refuse_singletons(tasks);
  initialize_mpi(argc, argv);
  world_ = find_world();
  world_.launched = launched;
  if (tasks > 1 && world_.size == 1) {  // a PMI version that this MPI does not support
    MPI_Finalize();
    refuse_singletons(tasks);
  }
  open_ = true;
}

MpiSession::~MpiSession() {
  if (open_ && std::uncaught_exceptions() == 0) MPI_Finalize();
}

int MpiSession::close(int exit_code) {
  DTRAIN_CHECK(open_, "close() is called once");
  int agreed = exit_code;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(&exit_code, &agreed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &request),
            "MPI_Iallreduce");
  Backoff backoff;  // rank 0 may still be writing files, and needs its cores for that
  for (int done = 0; !done;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!done) backoff.wait();
  }
  open_ = false;
  check_mpi(MPI_Finalize(), "MPI_Finalize");
  return agreed;
}

}  // namespace dtrain::dist
