# dtrain_add_module(NAME SOURCES ... [CUDA_SOURCES ...] [TORCH] [DEPENDS ...] [PRIVATE ...])
# One static library dtrain_NAME. TORCH: uses LibTorch and the shared precompiled header. PRIVATE: third-party libraries that only
# .cpp files include. CUDA_SOURCES are built only with DTRAIN_CUDA, CPU_SOURCES (a *_none.cpp) only without.

add_library(dtrain_flags INTERFACE)
# Clang only builds the fuzzers (preset fuzz): its other warnings are ignored.
target_compile_options(dtrain_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wall -Wextra -Wconversion -Werror -Wno-psabi>)
# Shared __host__ __device__ functions must round identically: no implicit fused multiply-add. GPU code for seven generations is
# stored compressed, because a bundle for GPU machines has little room (tests/gpu/bundle).
target_compile_options(dtrain_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
                                              "$<$<COMPILE_LANGUAGE:CUDA>:--fmad=false;--compress-mode=size>")
# LibTorch's libraries are built with NDEBUG, and without it at::RecordFunction of its headers has one more member.
target_compile_definitions(dtrain_flags INTERFACE $<$<NOT:$<CONFIG:Release>>:NDEBUG>)
target_include_directories(dtrain_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/src)

add_library(dtrain_pch STATIC ${CMAKE_SOURCE_DIR}/cmake/pch.cpp)
target_link_libraries(dtrain_pch PRIVATE dtrain_flags dtrain::torch)
# Not <torch/torch.h>: GCC instantiates the templates that a precompiled header has left pending in every file that uses it.
target_precompile_headers(dtrain_pch PRIVATE <torch/types.h> <torch/nn/module.h>)

function(dtrain_add_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH" "" "SOURCES;CUDA_SOURCES;CPU_SOURCES;DEPENDS;PRIVATE")
  if(DTRAIN_CUDA)
    list(APPEND arg_SOURCES ${arg_CUDA_SOURCES})
  else()
    list(APPEND arg_SOURCES ${arg_CPU_SOURCES})
  endif()
  add_library(dtrain_${name} STATIC ${arg_SOURCES})
  target_link_libraries(dtrain_${name} PUBLIC dtrain_flags Threads::Threads PRIVATE ${arg_PRIVATE})
  foreach(module IN LISTS arg_DEPENDS)
    target_link_libraries(dtrain_${name} PUBLIC dtrain_${module})
  endforeach()
  if(arg_TORCH)
    target_link_libraries(dtrain_${name} PUBLIC dtrain::torch)
    target_precompile_headers(dtrain_${name} REUSE_FROM dtrain_pch)
  endif()
  if(DTRAIN_CUDA)
    target_link_libraries(dtrain_${name} PUBLIC dtrain::cudart)
  endif()
endfunction()

# dtrain_embed(OUT HEADER NAMESPACE FUNCTION file...): makes the source OUT, which defines
#   std::optional<std::string_view> NAMESPACE::FUNCTION(std::string_view name)
# declared in HEADER: the text of the file with this name (without its extension).
function(dtrain_embed out header namespace function)
  add_custom_command(OUTPUT ${out} DEPENDS ${ARGN} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake VERBATIM COMMENT "Embedding files: ${header}"
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DHEADER=${header} -DNAMESPACE=${namespace} -DFUNCTION=${function} "-DFILES=${ARGN}"
            -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake)
endfunction()
