# `cmake --build build/release --target docs`: the headers as HTML in build/release/api, where Doxygen is installed (scripts/setup --test).
# A warning is an error.
find_program(QC_DOXYGEN doxygen)
if(QC_DOXYGEN)
  set(QC_API_HEADERS "")
  foreach(room ${QC_ROOMS})
    if(NOT room STREQUAL cli) # the program, which is no part of the library
      file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${room}/*.h)
      list(APPEND QC_API_HEADERS ${headers})
    endif()
  endforeach()
  list(JOIN QC_API_HEADERS " \\\n    " QC_API_HEADERS)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/Doxyfile.in ${PROJECT_BINARY_DIR}/Doxyfile @ONLY)
  add_custom_target(docs COMMAND ${QC_DOXYGEN} ${PROJECT_BINARY_DIR}/Doxyfile
    COMMENT "API reference in ${PROJECT_BINARY_DIR}/api/html/files.html" VERBATIM)
endif()
