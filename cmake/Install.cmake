# cmake --install: PREFIX/bin/dtrain, PREFIX/env.sh (source it) and PREFIX/share/dtrain (configs, dashboards, job scripts).
#
# The RPATH of the binary contains the folders of LibTorch, NCCL and the CUDA runtime. They are named here because CMake's
# INSTALL_RPATH_USE_LINK_PATH omits folders inside the source tree, such as .deps.
function(dtrain_install target)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${DTRAIN_LIBRARY_DIRS}" INSTALL_RPATH_USE_LINK_PATH OFF)
  install(TARGETS ${target} RUNTIME DESTINATION bin)
endfunction()

if(TARGET dtrain)
  dtrain_install(dtrain)
endif()

# The prefix is known only when installing (--prefix).
install(CODE "configure_file(\"${CMAKE_SOURCE_DIR}/launch/env.sh.in\"
                             \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/env.sh\" @ONLY)")

install(DIRECTORY ${CMAKE_SOURCE_DIR}/configs DESTINATION share/dtrain FILES_MATCHING PATTERN "*.yaml")
install(DIRECTORY ${CMAKE_SOURCE_DIR}/monitoring/prometheus ${CMAKE_SOURCE_DIR}/monitoring/grafana
        DESTINATION share/dtrain/monitoring OPTIONAL)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/launch/slurm ${CMAKE_SOURCE_DIR}/launch/kubernetes
                  ${CMAKE_SOURCE_DIR}/launch/hostfiles DESTINATION share/dtrain/launch)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION share/dtrain)
