#include "job/version.h"

#include <torch/version.h>

#include "data/hdf5/layout.h"
#include "device/device.h"
#include "dist/nccl_communicator.h"
#include "dist/world.h"
#include "text/strings.h"

namespace dtrain::job {

std::map<std::string, std::string> build_labels() {
  return {{"version", DTRAIN_VERSION},     {"git_commit", DTRAIN_GIT_COMMIT},
          {"torch", TORCH_VERSION},        {"cuda", device::cuda_runtime_version()},
          {"nccl", dist::nccl_versions()}, {"mpi", dist::mpi_library_version()},
          {"hdf5", data::hdf5_version()}};
}

std::string version_text() {
  const auto labels = build_labels();
  return str("dtrain ", labels.at("version"), " (", labels.at("git_commit"), ") | LibTorch ",
             labels.at("torch"), " | CUDA ", labels.at("cuda"), " | NCCL ", labels.at("nccl"),
             " | ", labels.at("mpi"), " | HDF5 ", labels.at("hdf5"));
}

}  // namespace dtrain::job
