#pragma once

// What a process needs of its environment before it can start: open files, a stack, and room for
// the files through which the ranks of a host share memory. Where it is missing, the libraries
// below die by a signal, hang, or print text of their own, long after the start. Errors:
// UsageError, one line with the limit, its value, what is needed, and how to change it.
// Thread-safety: to be called before other threads exist.

#include <cstdint>
#include <filesystem>
#include <string>

namespace dtrain::dist {

// Raises the limit of open files to what the system allows (at most 4096), and throws if that is
// too few.
void raise_open_files();

// Throws if the stack of a thread may have less than libraries are written for. The limit cannot be
// raised here: the C library has read it, for the threads to come, before main().
void require_stack();

struct MpiRoom {
  uint64_t file_bytes = 0;       // largest file that this process may write (ulimit -f)
  std::filesystem::path folder;  // where MPI keeps its session
  uint64_t folder_bytes = 0;     // free there
  uint64_t shared_bytes = 0;     // free in /dev/shm
  int local_ranks = 1;           // processes of the job on this host, which share both
};

// `folder`: TMPDIR, or /tmp.
MpiRoom mpi_room(const std::filesystem::path& folder, int local_ranks);

// What MPI_Init cannot do without: the message of an error, or "". Pure.
std::string missing_for_mpi(const MpiRoom& room);
// Why the ranks of this host cannot exchange MPI's messages through shared memory: the message of a
// warning, or "". They take TCP then. Gradients of CPU ranks do not need this room
// (shared_segment.h). Pure.
std::string no_shared_memory(const MpiRoom& room);

}  // namespace dtrain::dist
