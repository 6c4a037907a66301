# libqcalib (static and shared) from the rooms below cli/, the program from cli/, and what `cmake --install` copies.
get_property(built GLOBAL PROPERTY QC_BUILT_ROOMS)
get_property(links GLOBAL PROPERTY QC_LINKS)
list(REMOVE_DUPLICATES links)
set(objects "")
foreach(room ${built})
  if(NOT room STREQUAL cli)
    list(APPEND objects $<TARGET_OBJECTS:qc_${room}>)
  endif()
endforeach()

add_library(qcalib_static STATIC ${objects})
target_link_libraries(qcalib_static PRIVATE ${links})
set_target_properties(qcalib_static PROPERTIES OUTPUT_NAME qcalib)

# The map exports qc_* and nothing else; calls inside the library do not go through the symbol table.
add_library(qcalib_shared SHARED ${objects})
target_link_libraries(qcalib_shared PRIVATE ${links})
target_link_options(qcalib_shared PRIVATE
  -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/qcalib.map -Wl,-Bsymbolic-functions -Wl,-z,defs)
if(QC_SANITIZE) # clang leaves the sanitizer's symbols to the program
  target_link_options(qcalib_shared PRIVATE -Wl,-z,undefs)
endif()
set_target_properties(qcalib_shared PROPERTIES
  OUTPUT_NAME qcalib EXPORT_NAME qcalib VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/qcalib.map)
target_include_directories(qcalib_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/qcalib>)

if("cli" IN_LIST built)
  add_executable(qcalib ${PROJECT_SOURCE_DIR}/cli/main.c $<TARGET_OBJECTS:qc_cli>)
  target_link_libraries(qcalib PRIVATE qc_flags qcalib_static ${links})
  # What libraries do without memory; sanitizers have allocators of their own.
  if(NOT QC_SANITIZE)
    target_sources(qcalib PRIVATE ${PROJECT_SOURCE_DIR}/cli/allocators.c ${PROJECT_SOURCE_DIR}/cli/endings.c)
  endif()
  if(QC_SANITIZE MATCHES thread)
    target_sources(qcalib PRIVATE ${PROJECT_SOURCE_DIR}/tests/sanitizer_options.c)
  endif()
  set_target_properties(qcalib PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  install(TARGETS qcalib RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

  # The program for several processes, where MPI is installed (libopenmpi-dev); not under sanitizers, of which MPI knows nothing.
  pkg_check_modules(QC_mpi QUIET IMPORTED_TARGET GLOBAL ompi-c)
  if(QC_mpi_FOUND AND NOT QC_SANITIZE)
    add_executable(qcalib-mpi ${PROJECT_SOURCE_DIR}/cli/main_mpi.c ${PROJECT_SOURCE_DIR}/cli/allocators.c $<TARGET_OBJECTS:qc_cli>)
    target_link_libraries(qcalib-mpi PRIVATE qc_flags qcalib_static ${links} PkgConfig::QC_mpi)
    set_target_properties(qcalib-mpi PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
    install(TARGETS qcalib-mpi RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endif()

install(TARGETS qcalib_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS qcalib_shared EXPORT qcalib LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(room ${built})
  if(NOT room STREQUAL cli)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/${room} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/qcalib
            FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
  endif()
endforeach()

include(CMakePackageConfigHelpers)
set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/qcalib)
install(EXPORT qcalib NAMESPACE qcalib:: FILE qcalibConfig.cmake DESTINATION ${folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/qcalibConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/qcalibConfigVersion.cmake DESTINATION ${folder})

get_property(modules GLOBAL PROPERTY QC_PKGCONFIG)
list(JOIN modules " " QC_PKGCONFIG_REQUIRES)
file(RELATIVE_PATH QC_PREFIX_FROM_PC /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix) # an installed tree may be moved
configure_file(${PROJECT_SOURCE_DIR}/cmake/qcalib.pc.in ${PROJECT_BINARY_DIR}/qcalib.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/qcalib.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

file(GLOB examples ${PROJECT_SOURCE_DIR}/datasets/*.onnx ${PROJECT_SOURCE_DIR}/datasets/*.h5)
if(examples)
  install(FILES ${examples} DESTINATION ${CMAKE_INSTALL_DATADIR}/qcalib)
endif()
