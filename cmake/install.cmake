# What `cmake --install` puts where. Paths are relative, so that --prefix and DESTDIR work.
include(GNUInstallDirs)

install(TARGETS weir RUNTIME)
install(TARGETS weir_static weir_postgres ARCHIVE)
install(TARGETS weir_shared LIBRARY)
install(DIRECTORY include/weir DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)

# weir.pc finds its prefix from where it lies: an installation may be moved.
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_to_prefix ${pc_to_prefix})
foreach(pc weir weir-postgres)
    configure_file(cmake/${pc}.pc.in ${CMAKE_BINARY_DIR}/${pc}.pc @ONLY)
    install(FILES ${CMAKE_BINARY_DIR}/${pc}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

foreach(section 1 3 5 7 8)
    file(GLOB pages ${CMAKE_SOURCE_DIR}/docs/man/*.${section})
    install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
if(EXISTS ${CMAKE_SOURCE_DIR}/weir.service)
    install(FILES weir.service DESTINATION lib/systemd/system)
endif()
install(FILES completions/weir.bash RENAME weir
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
