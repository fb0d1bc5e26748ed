# dtrain_add_test(NAME SOURCES ... [LIBS module...] [LABELS unit] [NP 1 2 4] [TORCH] [TIMEOUT 300])
# One GoogleTest binary with one ctest entry, or with NP one entry per number of real MPI ranks. tests/support/*_main.cpp return 1
# if any test failed or if only some tests were skipped, and 77 if all were skipped: a skipped test never shows as passed.
find_package(GTest REQUIRED)
foreach(main IN ITEMS unit_main mpi_main) # built once for all binaries
  add_library(dtrain_${main} STATIC ${CMAKE_SOURCE_DIR}/tests/support/${main}.cpp)
  target_include_directories(dtrain_${main} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(dtrain_${main} PUBLIC dtrain_flags GTest::gtest)
endforeach()
target_link_libraries(dtrain_mpi_main PUBLIC MPI::MPI_CXX)

function(dtrain_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH" "TIMEOUT" "SOURCES;LIBS;LABELS;NP;PRIVATE")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=") # several times slower
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 5")
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(arg_NP)
    set(main mpi_main)
  else()
    set(main unit_main)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  foreach(module IN LISTS arg_LIBS)
    target_link_libraries(${name} PRIVATE dtrain_${module})
  endforeach()
  target_link_libraries(${name} PRIVATE ${arg_PRIVATE} dtrain_${main} dtrain_flags GTest::gtest GTest::gmock)
  if(arg_TORCH)
    target_link_libraries(${name} PRIVATE dtrain::torch)
    target_precompile_headers(${name} REUSE_FROM dtrain_pch)
  endif()
  if("gpu" IN_LIST arg_LABELS AND TARGET dtrain::torch_cuda)
    target_link_libraries(${name} PRIVATE dtrain::torch_cuda)
  endif()
  # Several files at a time: most of the time of the compiler goes into templates of LibTorch and GoogleTest. So names that two
  # files of a test define must differ, or the functions must take other parameters.
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  if(arg_NP)
    target_link_libraries(${name} PRIVATE MPI::MPI_CXX)
    foreach(np IN LISTS arg_NP)
      add_test(NAME ${name}.np${np} COMMAND mpirun --oversubscribe --bind-to none -np ${np} $<TARGET_FILE:${name}>)
      set_tests_properties(${name}.np${np} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77
        RUN_SERIAL TRUE # ranks that wait for each other have deadlines
        ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMP_NUM_THREADS=1;OMPI_MCA_btl_vader_single_copy_mechanism=none")
    endforeach()
  else()
    add_test(NAME ${name} COMMAND ${name})
    # Two run at a time: OpenMP's threads of one would wait for each other busily, on the cores of the other.
    set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77 ENVIRONMENT "OMP_WAIT_POLICY=passive")
  endif()
endfunction()

# dtrain_add_script(NAME script [ARGS ...] [LABELS e2e] [TIMEOUT 600]): a Python test, run by the Python of .deps. Its environment
# has DTRAIN (the binary), DTRAIN_SOURCE (the source tree) and DTRAIN_BUILD (the build folder). It returns 0, 1 or 77 (skipped).
function(dtrain_add_script name script)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "TIMEOUT" "LABELS;ARGS")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS e2e)
  endif()
  add_test(NAME ${name} COMMAND ${DTRAIN_DEPS}/venv/bin/python ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${arg_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77
    ENVIRONMENT "DTRAIN=$<TARGET_FILE:dtrain>;DTRAIN_SOURCE=${CMAKE_SOURCE_DIR};DTRAIN_BUILD=${CMAKE_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1;PYTHONPATH=${CMAKE_SOURCE_DIR}/tests/support;OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
endfunction()
