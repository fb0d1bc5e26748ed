// Shared memory between ranks that are threads of one process; each maps the memory for itself.
// Processes as ranks, and how they die, are tested in tests/mpi.

#include "dist/shared_memory_communicator.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "dist/peer_error.h"
#include "os/file_descriptor.h"
#include "os/made_tree.h"
#include "support/no_memfd.h"
#include "support/temp_dir.h"
#include "support/thread_world.h"
#include "tests/dist/communicator_contract.h"
#include "text/strings.h"

namespace dtrain::dist {
namespace {

using contract::rough_numbers;

// Runs `body` on `ranks` ranks that share memory.
void run_shared(int ranks, const std::function<void(Communicator&)>& body,
                const SharedMemoryOptions& options = {}) {
  run_thread_world(
      ranks, [&](Communicator& host) { body(*make_shared_memory_communicator(host, options)); });
}

// What `body` throws on each rank.
template <typename Expected>
std::set<std::string> errors(int ranks, const std::function<void(Communicator&)>& body,
                             const SharedMemoryOptions& options = {}) {
  std::mutex mutex;
  std::multiset<std::string> messages;
  run_thread_world(ranks, [&](Communicator& host) {
    try {
      body(*make_shared_memory_communicator(host, options));
    } catch (const Expected& error) {
      const std::lock_guard lock(mutex);
      messages.insert(error.what());
    }
  });
  EXPECT_EQ(messages.size(), static_cast<size_t>(ranks)) << "an error on every rank";
  return {messages.begin(), messages.end()};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int64_t mapped_files() {
  std::ifstream maps("/proc/self/maps");
  int64_t count = 0;
  for (std::string line; std::getline(maps, line);) count += contains(line, "dtrain");
  return count;
}

int64_t files_in(
    const std::filesystem::path& folder) {  // of this process, whose threads are the ranks
  const std::string prefix = str("dtrain-", ::getpid(), "-");
  int64_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    count += file.path().filename().string().starts_with(prefix);
  }
  return count;
}

TEST(SharedMemory, HoldsTheContract) {
  std::vector<contract::Case> cases = contract::cases();
  cases.push_back({"HalfInFloat32", contract::half_in_float32_case});
  for (const int ranks : {1, 2, 3, 5}) {
    for (const contract::Case& one : cases) {
      SCOPED_TRACE(str(one.name, " on ", ranks, " ranks"));
      run_shared(ranks, [&](Communicator& comm) { one.run(comm, at::kCPU); });
    }
  }
}

TEST(SharedMemory, AThousandSumsHaveTheBitsOfAdditionInRankOrder) {
  for (const int64_t n :
       {100, 5'000, 70'003}) {  // through slots, where they lie by the caller, and by the thread
    run_shared(3, [n](Communicator& comm) {
      at::Tensor wanted = rough_numbers(0, n, at::kFloat);
      for (int rank = 1; rank < comm.size(); ++rank) wanted += rough_numbers(rank, n, at::kFloat);
      const at::Tensor mine = rough_numbers(comm.rank(), n, at::kFloat),
                       sum = comm.allocate({n}, at::kFloat);
      int64_t other = 0;
      for (int run = 0; run < 1000; ++run) {
        sum.copy_(mine);
        comm.all_reduce(sum, ReduceOp::kSum).wait();
        other += !at::equal(contract::bytes_of(sum), contract::bytes_of(wanted));
      }
      EXPECT_EQ(other, 0) << n << " elements on rank " << comm.rank();
    });
  }
}

TEST(SharedMemory, ManyOperationsOfAllSizesInFlightRunInTheOrderOfIssue) {
  run_shared(2, [](Communicator& comm) {
    for (const bool in_arena : {false, true}) {
      const at::TensorOptions options(at::kDouble);
      const at::Tensor sum =
          in_arena ? comm.allocate({90'000}, options) : at::empty({90'000}, options);
      sum.fill_(1);
      std::vector<Work> works;
      for (int i = 0; i < 12; ++i) {  // each doubles: the small part, a middle part, and the whole
        works.push_back(comm.all_reduce(sum.narrow(0, 0, 3), ReduceOp::kSum));
        works.push_back(comm.all_reduce(sum.narrow(0, 0, 2000), ReduceOp::kSum));
        if (i % 4 == 3) works.push_back(comm.all_reduce(sum, ReduceOp::kSum));
      }
      for (int i = 0; i < 30; ++i)
        works.push_back(comm.all_reduce(sum.narrow(0, 0, 1), ReduceOp::kMax));
      std::for_each(works.rbegin(), works.rend(), [](Work& work) { work.wait(); });
      EXPECT_EQ(sum[0].item<double>(), 0x1p27);
      EXPECT_EQ(sum[1999].item<double>(), 0x1p15);
      EXPECT_EQ(sum[89'999].item<double>(), 8);
    }
  });
}

TEST(SharedMemory, FreesWhatATensorHeldAndKeepsATensorThatOutlivesTheCommunicator) {
  const int64_t before = mapped_files();
  std::vector<at::Tensor> kept(2);
  run_shared(2, [&](Communicator& comm) {
    for (int phase = 0; phase < 20; ++phase) comm.allocate({100'000}, at::kFloat).fill_(phase);
    comm.barrier();
    EXPECT_LE(mapped_files(), before + 2 + 2)
        << "the boards of both ranks, and at most a tensor that is being freed";
    comm.barrier();
    kept[static_cast<size_t>(comm.rank())] = comm.allocate({1000}, at::kFloat).fill_(comm.rank());
    comm.barrier();
  });
  EXPECT_EQ(mapped_files(), before + 2);
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_TRUE(kept[static_cast<size_t>(rank)].eq(rank).all().item<bool>());
  kept.clear();
  EXPECT_EQ(mapped_files(), before);
}

TEST(SharedMemory, BroadcastsFromWhereATensorLies) {
  run_shared(3, [](Communicator& comm) {
    for (const int64_t n :
         {500, 5'000, 300'000}) {  // through slots, in place by the caller, and by the thread
      const at::Tensor tensor = comm.allocate({n}, at::kDouble),
                       other = at::empty({n}, at::kDouble);
      for (int root = 0; root < comm.size(); ++root) {
        tensor.copy_(rough_numbers(comm.rank(), n, at::kDouble));
        other.copy_(tensor);
        Work first = comm.broadcast(tensor, root);
        comm.broadcast(other, root).wait();
        first.wait();
        EXPECT_TRUE(at::equal(tensor, rough_numbers(root, n, at::kDouble)))
            << n << " elements from rank " << root;
        EXPECT_TRUE(at::equal(tensor, other));
      }
    }
  });
}

TEST(SharedMemory, MemoryThatTheHostLacksIsADeviceErrorOnEveryRankBeforeItIsTaken) {
  testing::MadeTree tree;
  tree.file("/proc/meminfo", "MemAvailable:   10240 kB\n");
  const SharedMemoryOptions options{.root = tree.root()};
  const auto messages = errors<DeviceError>(
      2,
      [](Communicator& comm) {
        comm.allocate({1 << 20}, at::kFloat).fill_(1);
        try {
          comm.allocate({2 << 20}, at::kFloat);
        } catch (const DeviceError&) {
          comm.barrier();  // the communicator still works
          throw;
        }
      },
      options);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_TRUE(contains(*messages.begin(),
                       "the 2 ranks of this host cannot share 16.0 MiB of memory: the host and its "
                       "control group have 10.0 MiB left"))
      << *messages.begin();
}

TEST(SharedMemory, RemovesTheFilesOfJobsThatWereKilledAndOnlyThose) {
  const testing::TempDir folder;
  const auto make = [&](const std::string& name) {
    FileDescriptor file;
    EXPECT_EQ(file.open(folder / name, O_RDWR | O_CREAT), 0);
    return file;
  };
  make("dtrain-1-2");
  make("other-1-2");
  std::filesystem::create_symlink(folder / "other-1-2", folder / "dtrain-link");
  const FileDescriptor of_a_job_that_lives = make("dtrain-3-4");
  ASSERT_EQ(::flock(of_a_job_that_lives.get(), LOCK_EX), 0);
  run_shared(2, [](Communicator& comm) { comm.barrier(); },
             {.make_unnamed = testing::no_memfd, .folder = folder.path()});
  std::set<std::string> left;
  for (const auto& file : std::filesystem::directory_iterator(folder.path()))
    left.insert(file.path().filename());
  EXPECT_EQ(left, (std::set<std::string>{"dtrain-3-4", "dtrain-link", "other-1-2"}));
}

TEST(SharedMemory, MessagesUseTheNumbersThatTheRanksHaveElsewhere) {
  const auto messages =
      errors<CommError>(2,
                        [](Communicator& comm) {
                          comm.all_reduce(at::ones({comm.rank() + 1}), ReduceOp::kSum).wait();
                        },
                        {.names = {4, 7}});
  for (const std::string& message : messages) {
    EXPECT_TRUE(contains(message, "rank 4") && contains(message, "rank 7")) << message;
  }
}

TEST(SharedMemory, OtherPartsOfTheArenaAreAnErrorNotAnotherSum) {
  const auto shifted = errors<CommError>(2, [](Communicator& comm) {
    const at::Tensor sum = comm.allocate({20'000}, at::kFloat);
    comm.all_reduce(sum.narrow(0, comm.rank(), 10'000), ReduceOp::kSum).wait();
  });
  for (const std::string& message : shifted)
    EXPECT_TRUE(contains(message, "not at the same operation")) << message;
  errors<CommError>(2, [](Communicator& comm) {  // the arena on one rank, other memory on the other
    const at::Tensor arena = comm.allocate({200'000}, at::kFloat),
                     other = at::ones({200'000}, at::kFloat);
    comm.all_reduce(comm.rank() == 0 ? arena : other, ReduceOp::kSum).wait();
  });
}

TEST(SharedMemory, EveryDifferenceBetweenRanksIsAnErrorThatSaysWhatEachIsAt) {
  const at::Tensor ten = at::ones({10}, at::kFloat);
  using Call = std::function<Work(Communicator&)>;
  const std::vector<Call> calls = {
      [](Communicator& c) { return c.all_reduce(at::ones({10}, at::kFloat), ReduceOp::kSum); },
      [](Communicator& c) { return c.all_reduce(at::ones({10}, at::kFloat), ReduceOp::kMax); },
      [](Communicator& c) { return c.all_reduce(at::ones({11}, at::kFloat), ReduceOp::kSum); },
      [](Communicator& c) { return c.all_reduce(at::ones({5}, at::kLong), ReduceOp::kSum); },
      [](Communicator& c) { return c.all_reduce(at::ones({500'000}, at::kFloat), ReduceOp::kSum); },
      [](Communicator& c) { return c.broadcast(at::ones({10}, at::kFloat), 0); },
      [](Communicator& c) { return c.broadcast(at::ones({10}, at::kFloat), 1); },
      [](Communicator& c) {
        return c.all_gather(at::ones({20}, at::kFloat), at::ones({10}, at::kFloat));
      },
      [](Communicator& c) {
        c.barrier();
        return Work();
      }};
  for (size_t first = 0; first < calls.size(); ++first) {
    for (size_t second = first + 1; second < calls.size(); ++second) {
      const auto both = errors<CommError>(2, [&](Communicator& comm) {
        (comm.rank() == 0 ? calls[first] : calls[second])(comm).wait();
      });
      for (const std::string& message : both) {
        EXPECT_TRUE(contains(message, "rank 0") && contains(message, "rank 1") &&
                    contains(message, "not at the same"))
            << message;
      }
    }
  }
}

TEST(SharedMemory, ARankThatLeavesWhileOthersWaitIsNamed) {
  run_thread_world(3, [](Communicator& host) {
    const auto comm = make_shared_memory_communicator(host);
    comm->barrier();
    if (comm->rank() == 1) return;
    try {
      comm->barrier();
      ADD_FAILURE() << "a barrier without rank 1";
    } catch (const PeerError& error) {
      EXPECT_TRUE(contains(error.what(), "rank 1 has left")) << error.what();
      EXPECT_EQ(error.peer(), 1) << "also where another rank noticed it";
    }
  });
}

TEST(SharedMemory, CheckThrowsWhatAnotherRankAborted) {
  run_shared(2, [](Communicator& comm) {
    comm.check();
    comm.barrier();
    if (comm.rank() == 0) comm.abort("the disk is full");
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    try {
      while (std::chrono::steady_clock::now() < deadline) comm.check();
      ADD_FAILURE() << "rank " << comm.rank() << " did not hear of it";
    } catch (const CommError& error) {
      EXPECT_TRUE(contains(error.what(), "the disk is full")) << error.what();
    }
  });
}

TEST(SharedMemory, AFileWithoutRoomIsADeviceErrorOnEveryRankWithWhatItNeedsAndHowToGetIt) {
  testing::MadeTree tree;  // of a host with more memory than /dev/shm
  tree.file("/proc/meminfo", "MemAvailable:   1000000000000 kB\n");
  const SharedMemoryOptions options{.make_unnamed = testing::no_memfd, .root = tree.root()};
  const auto size = static_cast<int64_t>(std::filesystem::space(options.folder).capacity);
  const auto messages = errors<DeviceError>(
      2, [&](Communicator& comm) { comm.allocate({size / 4}, at::TensorOptions(at::kDouble)); },
      options);
  for (const std::string& message : messages) {
    for (const char* part :
         {"the 2 ranks of this host", "GiB of memory", "cannot take room in a file in /dev/shm",
          "--shm-size", "emptyDir", "dist.backend mpi"}) {
      EXPECT_TRUE(contains(message, part)) << message;
    }
  }
  EXPECT_EQ(files_in(options.folder), 0);
  EXPECT_EQ(DeviceError("").exit_code(), 69);
}

TEST(SharedMemory, NoWayToShareIsADeviceErrorOnEveryRank) {
  const auto nothing = [](Communicator&) {};
  for (const std::string& message :
       errors<DeviceError>(3, nothing, {.make_unnamed = testing::no_memfd, .folder = "/nowhere"})) {
    for (const char* part : {"rank 0 cannot create the memory file of rank 0: Function not",
                             "rank 0 cannot create a file in /nowhere: No such file"}) {
      EXPECT_TRUE(contains(message, part)) << message;
    }
  }
  errors<DeviceError>(2, nothing, {.make_unnamed = testing::no_memfd, .folder = ""});
}

TEST(SharedMemory, TheFileInDevShmIsGoneAsSoonAsAllHaveMappedIt) {
  const SharedMemoryOptions options{.make_unnamed = testing::no_memfd};
  run_shared(
      2,
      [&](Communicator& comm) {
        const at::Tensor sum = comm.allocate({10'000}, at::kFloat).fill_(1);
        comm.barrier();
        EXPECT_EQ(files_in(options.folder), 0);
        comm.all_reduce(sum, ReduceOp::kSum).wait();
        EXPECT_EQ(sum[9'999].item<float>(), 2);
      },
      options);
}

}  // namespace
}  // namespace dtrain::dist
