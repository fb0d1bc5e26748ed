/* MPI_Allreduce of float32 by size, without dtrain, so that it can be compiled against any MPI and compared with the
 * columns of all_reduce.cpp, which measures in the same way.
 *   mpicc -O2 bench/mpi_all_reduce.c -o mpi_all_reduce && mpirun -np 2 ./mpi_all_reduce [COUNT]
 * Hot: operations that follow each other (at most COUNT in a row, 2000 if not given), on the same buffer. Cold: one
 * operation, after the buffer was written and 64 MiB of other memory were touched. A time is that of the slowest rank.
 * Prints one JSON object per line, times in microseconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kEvictBytes = 64 << 20, kMost = 400 };

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void fill(float *values, int count, int rank) {
  for (int i = 0; i < count; ++i) values[i] = (float)(rank + 1);
}

/* Seconds of one operation, of the slowest rank. */
static double time_one(float *values, int count, int repetitions) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double began = MPI_Wtime();
  for (int i = 0; i < repetitions; ++i) {
    MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  double mine = (MPI_Wtime() - began) / repetitions, slowest = 0;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

int main(int argc, char **argv) {
  static const int sizes[] = {4,      64,      1024,    4096,     16384,    65536,
                              262144, 1048576, 4194304, 14680064, 26214400, 104857600};
  int rank = 0, ranks = 1, length = 0;
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  MPI_Init(&argc, &argv);
  const int most_in_a_row = argc > 1 && atoi(argv[1]) > 0 ? atoi(argv[1]) : 2000;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Get_library_version(version, &length);
  version[strcspn(version, ",\n")] = 0;
  float *values = malloc(104857600);
  char *other = malloc(kEvictBytes);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
    const int bytes = sizes[s], count = bytes / 4;
    for (int cold = 0; cold < 2; ++cold) {
      const int samples = bytes >= 1 << 20 ? 15 : 60;
      const int usual = bytes <= 1 << 14 ? 2000 : bytes <= 1 << 20 ? 50 : 3;
      const int repetitions = cold ? 1 : usual < most_in_a_row ? usual : most_in_a_row;
      double times[kMost];
      fill(values, count, rank);
      time_one(values, count, repetitions);
      for (int i = 0; i < samples; ++i) {
        fill(values, count, rank);
        if (cold) memset(other, i, kEvictBytes);
        times[i] = time_one(values, count, repetitions);
      }
      qsort(times, (size_t)samples, sizeof *times, compare);
      if (rank == 0) {
        printf("{\"mpi\": \"%s\", \"ranks\": %d, \"bytes\": %d, \"caches\": \"%s\", \"median_us\": %.3f, \"min_us\": %.3f}\n",
               version, ranks, bytes, cold ? "cold" : "hot", 1e6 * times[samples / 2], 1e6 * times[0]);
        fflush(stdout);
      }
    }
  }
  free(values);
  free(other);
  MPI_Finalize();
  return 0;
}
