# libqcalib (static and shared) from the rooms below cli/, the program from cli/, and the files for `cmake --install`.
get_property(built GLOBAL PROPERTY QC_BUILT_ROOMS)
get_property(links GLOBAL PROPERTY QC_LINKS)
list(REMOVE_DUPLICATES links)
set(objects "")
foreach(room ${built})
  if(NOT room STREQUAL cli)
    list(APPEND objects $<TARGET_OBJECTS:qc_${room}>)
  endif()
endforeach()

# The static library is one object in which all names except qcalib_* are local, so that names that the shared library
# hides cannot clash in a program either.
set(whole ${PROJECT_BINARY_DIR}/generated/libqcalib.o)
add_custom_command(OUTPUT ${whole}
  COMMAND ${CMAKE_LINKER} -r -o ${whole} ${objects}
  COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${whole}
  DEPENDS ${objects} COMMENT "One object of all rooms" COMMAND_EXPAND_LISTS VERBATIM)
set_source_files_properties(${whole} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
add_library(qcalib_static STATIC ${whole})
target_link_libraries(qcalib_static PRIVATE ${links})
set_target_properties(qcalib_static PROPERTIES OUTPUT_NAME qcalib LINKER_LANGUAGE C)

# The map gives the names their version. Calls inside the library do not use the symbol table. While the major version
# is 0, each minor version has its own binary interface.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(QC_INTERFACE 0.${PROJECT_VERSION_MINOR})
else()
  set(QC_INTERFACE ${PROJECT_VERSION_MAJOR})
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/qcalib.map.in ${PROJECT_BINARY_DIR}/qcalib.map @ONLY)
add_library(qcalib_shared SHARED ${objects})
target_link_libraries(qcalib_shared PRIVATE ${links})
target_link_options(qcalib_shared PRIVATE
  -Wl,--version-script=${PROJECT_BINARY_DIR}/qcalib.map -Wl,-Bsymbolic-functions -Wl,-z,defs)
if(QC_SANITIZE) # with clang the sanitizer's symbols are in the program
  target_link_options(qcalib_shared PRIVATE -Wl,-z,undefs)
endif()
set_target_properties(qcalib_shared PROPERTIES
  OUTPUT_NAME qcalib EXPORT_NAME qcalib VERSION ${PROJECT_VERSION} SOVERSION ${QC_INTERFACE}
  LINK_DEPENDS ${PROJECT_BINARY_DIR}/qcalib.map)
target_include_directories(qcalib_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# CycloneDX list of the libraries that are linked.
get_property(known GLOBAL PROPERTY QC_KNOWN)
get_property(static GLOBAL PROPERTY QC_STATIC)
set(bill ${PROJECT_BINARY_DIR}/qcalib.cdx.json)
set(billed qcalib_shared)
if(QCALIB_STATIC)
  set(billed qcalib)
endif()
add_custom_command(OUTPUT ${bill}
  COMMAND ${CMAKE_COMMAND} -DFILE=$<TARGET_FILE:${billed}> -DOUT=${bill} -DNAME=qcalib -DVERSION=${PROJECT_VERSION}
          -DREADELF=${CMAKE_READELF} "-DKNOWN=${known}" "-DSTATIC=${static}"
          -P ${PROJECT_SOURCE_DIR}/cmake/bill.cmake
  DEPENDS ${billed} ${PROJECT_SOURCE_DIR}/cmake/bill.cmake COMMENT "List of linked libraries" VERBATIM)
if(QC_SANITIZE) # has libraries that are never installed
  add_custom_target(qcalib_bill)
else()
  add_custom_target(qcalib_bill ALL DEPENDS ${bill})
endif()

# One target for everything that `cmake --install` copies.
add_custom_target(installable DEPENDS qcalib_static qcalib_shared qcalib_bill)

if("cli" IN_LIST built)
  if(QCALIB_STATIC) # in place of -pie, which would win over it
    set(CMAKE_C_LINK_OPTIONS_PIE -static-pie)
  endif()
  add_executable(qcalib ${PROJECT_SOURCE_DIR}/cli/main.c)
  qc_link_rooms(qcalib cli)
  target_link_libraries(qcalib PRIVATE qc_flags)
  # Handles failed allocations in libraries. Not with sanitizers, which have their own allocators, and not in wheels: on
  # glibc 2.31, dlsym calls the allocators that ask it, without end.
  if(NOT QC_SANITIZE AND NOT QCALIB_STATIC AND NOT QC_GLIBC VERSION_LESS 2.34)
    target_sources(qcalib PRIVATE ${PROJECT_SOURCE_DIR}/cli/allocators.c ${PROJECT_SOURCE_DIR}/cli/endings.c)
  endif()
  if(QC_SANITIZE MATCHES thread)
    target_sources(qcalib PRIVATE ${PROJECT_SOURCE_DIR}/tests/sanitizer_options.c)
  endif()
  set_target_properties(qcalib PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  install(TARGETS qcalib RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  add_dependencies(installable qcalib)
  if(TARGET qcalib_manual)
    add_dependencies(installable qcalib_manual)
  endif()

  # The program for several processes, if MPI is installed (libopenmpi-dev). Not with sanitizers, which MPI does not
  # support.
  if(QCALIB_MPI)
    pkg_check_modules(QC_mpi QUIET IMPORTED_TARGET GLOBAL ompi-c)
  endif()
  if(QCALIB_MPI AND QC_mpi_FOUND AND NOT QC_SANITIZE)
    add_executable(qcalib-mpi ${PROJECT_SOURCE_DIR}/cli/main_mpi.c ${PROJECT_SOURCE_DIR}/cli/allocators.c)
    qc_link_rooms(qcalib-mpi cli)
    target_link_libraries(qcalib-mpi PRIVATE qc_flags PkgConfig::QC_mpi)
    set_target_properties(qcalib-mpi PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
    install(TARGETS qcalib-mpi RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT mpi)
    add_dependencies(installable qcalib-mpi)
  endif()
endif()

install(TARGETS qcalib_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(TARGETS qcalib_shared EXPORT qcalib LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT program
        NAMELINK_COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/qcalib DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
        FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/cmake/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/qcalib COMPONENT program)

install(FILES ${PROJECT_SOURCE_DIR}/export/report/report.schema.json DESTINATION ${CMAKE_INSTALL_DATADIR}/qcalib
        COMPONENT program)
install(FILES ${bill} DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/qcalib COMPONENT program)

include(CMakePackageConfigHelpers)
set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/qcalib)
install(EXPORT qcalib NAMESPACE qcalib:: FILE qcalibConfig.cmake DESTINATION ${folder} COMPONENT development)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/qcalibConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/qcalibConfigVersion.cmake DESTINATION ${folder} COMPONENT development)

# Only programs that link the static library need the other libraries. As Requires.private they would be required for the
# shared library too.
get_property(flags GLOBAL PROPERTY QC_LINK_FLAGS)
list(REMOVE_DUPLICATES flags)
list(JOIN flags " " QC_PC_LINK_FLAGS)
file(RELATIVE_PATH QC_PREFIX_FROM_PC /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix) # an installed tree may be moved
configure_file(${PROJECT_SOURCE_DIR}/cmake/qcalib.pc.in ${PROJECT_BINARY_DIR}/qcalib.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/qcalib.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

file(GLOB examples ${PROJECT_SOURCE_DIR}/datasets/*.onnx ${PROJECT_SOURCE_DIR}/datasets/*.h5)
if(examples)
  install(FILES ${examples} DESTINATION ${CMAKE_INSTALL_DATADIR}/qcalib COMPONENT program)
endif()
