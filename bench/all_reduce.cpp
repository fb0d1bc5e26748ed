// What the sum of float32 gradients over ranks costs by size: MPI_Allreduce of the MPI that dtrain
// is linked with, dtrain's mpi communicator, and dtrain's shared memory, on several hosts its
// hierarchical communicator, in one process and alternately. (tests/support/pretended_host makes
// hosts of one machine.)
//   mpirun -np 2 build/bench/all_reduce [--json FILE] [--most BYTES] [--row COUNT]
// Hot: operations that follow each other (at most COUNT in a row, 2000 if not given), on the same
// buffer. Cold: one operation, after the buffer was written and 64 MiB of other memory were
// touched. Each way meets at a barrier of its own before. A time is that of the slowest rank;
// median and least over the repetitions, in microseconds. bench/mpi_all_reduce.c measures other
// MPIs in the same way.

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "core/spread.h"
#include "dist/affinity.h"
#include "dist/make_communicator.h"
#include "dist/mpi_communicator.h"
#include "dist/mpi_session.h"
#include "text/strings.h"
#include "text/text_table.h"

namespace {

using namespace dtrain;
using namespace dtrain::dist;

constexpr size_t kEvictBytes = 64 << 20;

struct Way {
  std::string name;
  at::Tensor values;
  std::function<void(const at::Tensor&)> sum;
  std::function<void()>
      meet;  // a barrier: that of another library lets ranks go at times that differ by more
};

// Seconds of one operation, of the slowest rank.
double time_one(const Way& way, const at::Tensor& values, int repetitions) {
  way.meet();
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < repetitions; ++i) way.sum(values);
  double mine =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() / repetitions;
  double slowest = 0;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

// By way, seconds.
std::vector<Spread> measure(const std::vector<Way>& ways, int64_t bytes, bool cold,
                            int most_in_a_row, int rank) {
  static std::vector<char> other(kEvictBytes);
  const int samples = bytes >= 1 << 20 ? 15 : 60;
  const int repetitions = cold ? 1
                               : std::min(most_in_a_row, bytes <= 1 << 14   ? 2000
                                                         : bytes <= 1 << 20 ? 50
                                                                            : 3);
  std::vector<std::vector<double>> seconds(ways.size());
  for (int sample = -1; sample < samples; ++sample) {  // the first one warms up
    for (size_t way = 0; way < ways.size(); ++way) {
      const at::Tensor values = ways[way].values.narrow(0, 0, bytes / 4);
      values.fill_(static_cast<float>(rank + 1));
      if (cold) std::memset(other.data(), sample, other.size());
      const double one = time_one(ways[way], values, repetitions);
      if (sample >= 0) seconds[way].push_back(one);
    }
  }
  std::vector<Spread> spreads;
  for (std::vector<double>& of_way : seconds) spreads.push_back(spread_of(std::move(of_way)));
  return spreads;
}

int run(MpiSession& session, const std::string& json, int64_t most, int most_in_a_row) {
  const World& world = session.world();
  widen_affinity(world);
  const std::unique_ptr<Communicator> mpi = make_mpi_communicator();
  config::Dist fastest;
  fastest.backend = world.local_size == world.size ? config::Backend::kSharedMemory
                                                   : config::Backend::kHierarchical;
  const std::unique_ptr<Communicator> ours =
      make_gradient_communicator(*mpi, fastest, world, at::kCPU);
  const std::string name(ours->name());
  const std::vector<int64_t> shape = {most / 4};
  const auto sum_with = [](Communicator& comm) {
    return [&comm](const at::Tensor& values) { comm.all_reduce(values, ReduceOp::kSum).wait(); };
  };
  const auto meet_with = [](Communicator& comm) { return [&comm] { comm.barrier(); }; };
  const std::vector<Way> ways = {
      {"MPI_Allreduce", at::empty(shape, at::kFloat),
       [](const at::Tensor& values) {
         MPI_Allreduce(MPI_IN_PLACE, values.data_ptr(), static_cast<int>(values.numel()), MPI_FLOAT,
                       MPI_SUM, MPI_COMM_WORLD);
       },
       [] { MPI_Barrier(MPI_COMM_WORLD); }},
      {"mpi", at::empty(shape, at::kFloat), sum_with(*mpi), meet_with(*mpi)},
      {name, ours->allocate(shape, at::kFloat), sum_with(*ours), meet_with(*ours)},
      {name + ", other memory", at::empty(shape, at::kFloat), sum_with(*ours), meet_with(*ours)}};
  TextRow header = {"bytes", "caches"};
  for (const Way& way : ways) header.insert(header.end(), {way.name, "least"});
  header.push_back("gain");
  std::vector<TextRow> rows;
  std::ofstream lines;
  if (!json.empty() && world.rank == 0) lines.open(json);
  for (const int64_t bytes :
       {4, 64, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 14680064, 26214400, 104857600}) {
    if (bytes > most) break;
    for (const bool cold : {false, true}) {
      const std::vector<Spread> spreads = measure(ways, bytes, cold, most_in_a_row, world.rank);
      rows.push_back({std::to_string(bytes), cold ? "cold" : "hot"});
      for (size_t way = 0; way < ways.size(); ++way) {
        rows.back().push_back(fixed(1e6 * spreads[way].median, 2));
        rows.back().push_back(fixed(1e6 * spreads[way].low, 2));
        lines << "{\"way\": \"" << ways[way].name << "\", \"ranks\": " << world.size
              << ", \"bytes\": " << bytes << ", \"caches\": \"" << rows.back()[1]
              << "\", \"median_us\": " << fixed(1e6 * spreads[way].median, 3)
              << ", \"min_us\": " << fixed(1e6 * spreads[way].low, 3) << "}\n";
      }
      rows.back().push_back(fixed(spreads[0].median / spreads[2].median, 2));
    }
  }
  if (world.rank == 0) {
    std::cout << world.size << " ranks, " << mpi_library_version()
              << ", microseconds: median, least; gain: of " << name << " over MPI_Allreduce\n"
              << text_table(header, rows);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string json;
  int64_t most = 104857600;
  int most_in_a_row = 2000;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (argv[i] == std::string("--json")) json = argv[i + 1];
    if (argv[i] == std::string("--most")) most = std::max(4L, std::atol(argv[i + 1]));
    if (argv[i] == std::string("--row")) most_in_a_row = std::max(1, std::atoi(argv[i + 1]));
  }
  MpiSession session(&argc, &argv);
  return session.close(run(session, json, most, most_in_a_row));
}
