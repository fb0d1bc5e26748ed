# cmake --install: PREFIX/bin/dtrain, PREFIX/env.sh (source it), PREFIX/share/dtrain (configs, dashboards, job scripts), and under
# PREFIX/share the manual page and the completion for bash and zsh, which the program prints.
#
# The RPATH of the binary contains the folders of LibTorch, NCCL and the CUDA runtime. They are named here because CMake's
# INSTALL_RPATH_USE_LINK_PATH omits folders inside the source tree, such as .deps.
function(dtrain_install target)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${DTRAIN_LIBRARY_DIRS}" INSTALL_RPATH_USE_LINK_PATH OFF)
  install(TARGETS ${target} RUNTIME DESTINATION bin)
endfunction()

if(TARGET dtrain)
  dtrain_install(dtrain)
  foreach(page IN ITEMS "man man/man1 dtrain.1" "bash bash-completion/completions dtrain" "zsh zsh/site-functions _dtrain")
    separate_arguments(page)
    list(GET page 0 form)
    list(GET page 1 folder)
    list(GET page 2 name)
    install(CODE "set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/${folder}\")
                  file(MAKE_DIRECTORY \"\${folder}\")
                  execute_process(COMMAND \"$<TARGET_FILE:dtrain>\" --manual ${form} OUTPUT_FILE \"\${folder}/${name}\"
                                  COMMAND_ERROR_IS_FATAL ANY)")
  endforeach()
endif()

# The prefix is known only when installing (--prefix).
install(CODE "configure_file(\"${CMAKE_SOURCE_DIR}/launch/env.sh.in\"
                             \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/env.sh\" @ONLY)")

install(DIRECTORY ${CMAKE_SOURCE_DIR}/configs DESTINATION share/dtrain FILES_MATCHING PATTERN "*.yaml")
install(DIRECTORY ${CMAKE_SOURCE_DIR}/monitoring/prometheus ${CMAKE_SOURCE_DIR}/monitoring/grafana
        DESTINATION share/dtrain/monitoring OPTIONAL)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/launch/slurm ${CMAKE_SOURCE_DIR}/launch/kubernetes ${CMAKE_SOURCE_DIR}/launch/ssh
                  ${CMAKE_SOURCE_DIR}/launch/hostfiles DESTINATION share/dtrain/launch USE_SOURCE_PERMISSIONS)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION share/dtrain)
