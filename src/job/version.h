#pragma once

// Which versions of dtrain and of its libraries this process runs: for --version, the banner,
// environment.json and the labels of dtrain_build_info. May be called before MPI starts.

#include <map>
#include <string>

namespace dtrain::job {

// version, git_commit, torch, cuda, nccl, mpi, hdf5
std::map<std::string, std::string> build_labels();
std::string version_text();  // the same in one line

}  // namespace dtrain::job
