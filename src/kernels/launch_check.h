#pragma once

// What becomes of the results of dtrain's own kernel launches. A .cu file throws nothing: its
// functions return what cudaGetLastError() says after a launch. That may be the error of any
// earlier kernel, because a GPU that has failed fails every call from then on. So it becomes the
// error that LibTorch throws for its own launches, which all handlers of a failed GPU know
// (dist/failure.h, train::device_failure()).

namespace dtrain::kernels {

// A cudaError_t; 0 is success. An int, because a build without GPU code has no CUDA headers.
using LaunchResult = int;

// c10::AcceleratorError with this code, unless it is 0. May be called from any thread.
void check_launch(LaunchResult);

}  // namespace dtrain::kernels
