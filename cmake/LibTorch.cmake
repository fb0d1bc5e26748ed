# dtrain::torch (LibTorch) and, with DTRAIN_CUDA, dtrain::torch_cuda, dtrain::cudart and dtrain::nccl.
#
# LibTorch's own TorchConfig.cmake is not used: it enables CUDA languages and links a whole toolkit. A few libraries and
# two include folders are enough. LibTorch is searched in CMAKE_PREFIX_PATH (your own LibTorch), then in .deps/.
set(hints ${DTRAIN_DEPS}/torch)
# ../..: torch.utils.cmake_prefix_path in Python names a folder two levels below.
find_path(DTRAIN_TORCH_ROOT share/cmake/Torch/TorchConfig.cmake HINTS ${CMAKE_PREFIX_PATH} ${hints} PATH_SUFFIXES . ../..
          NO_DEFAULT_PATH)
if(NOT DTRAIN_TORCH_ROOT)
  message(FATAL_ERROR "LibTorch not found. Run ./launch/bootstrap, or give -DCMAKE_PREFIX_PATH=/path/to/libtorch")
endif()
get_filename_component(torch_root "${DTRAIN_TORCH_ROOT}" REALPATH)

add_library(dtrain_torch INTERFACE)
add_library(dtrain::torch ALIAS dtrain_torch)
target_include_directories(dtrain_torch SYSTEM INTERFACE ${torch_root}/include
                                                         ${torch_root}/include/torch/csrc/api/include)
# libstdc++ comes first: the wheel's libtorch.so exports parts of std::filesystem (from its builder's older libstdc++) that
# call a null pointer when used from outside, e.g. remove_all.
# Not libtorch.so, which would load libtorch_cuda.so.
target_link_libraries(dtrain_torch INTERFACE stdc++ ${torch_root}/lib/libtorch_cpu.so ${torch_root}/lib/libc10.so)
set(DTRAIN_LIBRARY_DIRS ${torch_root}/lib)

# The OpenMP library that LibTorch brings, so that the process has one pool of threads; else the compiler's.
add_library(dtrain_openmp INTERFACE)
add_library(dtrain::openmp ALIAS dtrain_openmp)
file(GLOB openmp LIST_DIRECTORIES false ${torch_root}/lib/libgomp*.so*)
list(APPEND openmp gomp)
list(GET openmp 0 openmp)
target_link_libraries(dtrain_openmp INTERFACE ${openmp})
message(STATUS "LibTorch: ${torch_root}")

if(DTRAIN_CUDA AND NOT EXISTS ${torch_root}/lib/libtorch_cuda.so)
  message(STATUS "this LibTorch has no CUDA: building without GPU code")
  set(DTRAIN_CUDA OFF)
endif()
if(DTRAIN_CUDA)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(nvcc nvcc HINTS ${DTRAIN_DEPS}/cuda/bin ENV CUDA_HOME PATH_SUFFIXES bin)
    set(CMAKE_CUDA_COMPILER ${nvcc})
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90-real 100-real 120) # the last one also as PTX
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  set(CMAKE_CUDA_STANDARD 20)
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # Debian's CMake 3.25.1 does not know that nvcc has it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  # The wheels' own runtime and NCCL, so that the process loads no second copy.
  set(nvidia ${torch_root}/../nvidia)
  find_library(DTRAIN_CUDART NAMES libcudart.so.13 HINTS ${nvidia}/cu13/lib ${torch_root}/lib
               PATHS ${CMAKE_CUDA_COMPILER_LIBRARY_ROOT}/lib64 NO_DEFAULT_PATH REQUIRED)
  find_library(DTRAIN_NCCL NAMES libnccl.so.2 HINTS ${nvidia}/nccl/lib ${torch_root}/lib NO_DEFAULT_PATH REQUIRED)
  find_path(DTRAIN_NCCL_INCLUDE nccl.h HINTS ${nvidia}/nccl/include NO_DEFAULT_PATH REQUIRED)
  find_path(DTRAIN_NVML_INCLUDE nvml.h HINTS ${nvidia}/cu13/include ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES} REQUIRED)
  foreach(library IN ITEMS DTRAIN_CUDART DTRAIN_NCCL)
    get_filename_component(${library} "${${library}}" REALPATH)
    get_filename_component(folder "${${library}}" DIRECTORY)
    list(APPEND DTRAIN_LIBRARY_DIRS ${folder})
  endforeach()

  add_library(dtrain_cudart INTERFACE)
  add_library(dtrain::cudart ALIAS dtrain_cudart)
  target_include_directories(dtrain_cudart SYSTEM INTERFACE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  target_link_libraries(dtrain_cudart INTERFACE ${DTRAIN_CUDART})
  add_library(dtrain_nccl INTERFACE)
  add_library(dtrain::nccl ALIAS dtrain_nccl)
  target_include_directories(dtrain_nccl SYSTEM INTERFACE ${DTRAIN_NCCL_INCLUDE})
  target_link_libraries(dtrain_nccl INTERFACE ${DTRAIN_NCCL} dtrain::cudart)
  target_link_libraries(dtrain_torch INTERFACE ${torch_root}/lib/libc10_cuda.so)
  # LibTorch's operators for GPUs. dtrain loads them where there is a driver (device/device.h); tests on a GPU are linked with them.
  # They register themselves when they are loaded, and nothing uses a symbol of them: keep the linker from dropping them.
  add_library(dtrain_torch_cuda INTERFACE)
  add_library(dtrain::torch_cuda ALIAS dtrain_torch_cuda)
  target_link_libraries(dtrain_torch_cuda INTERFACE -Wl,--no-as-needed ${torch_root}/lib/libtorch_cuda.so -Wl,--as-needed)
endif()
