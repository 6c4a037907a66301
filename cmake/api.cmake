# `cmake --build build/release --target docs`: the public headers as HTML in build/release/api, if Doxygen is installed
# (scripts/setup --test). Doxygen also checks the comments of the rooms' headers, without pages. A warning is an error.
find_program(QC_DOXYGEN doxygen)

# qc_doxyfile(NAME FOLDER PROJECT PAGES HEADER ...): build/NAME from cmake/Doxyfile.in. PAGES: YES, or NO for output
# that is not used: Doxygen must write some format, and XML is the fastest.
function(qc_doxyfile name folder project pages)
  set(QC_API_NAME ${project})
  set(QC_API_FOLDER ${folder})
  set(QC_API_PAGES ${pages})
  set(QC_API_DATA NO)
  if(NOT pages)
    set(QC_API_DATA YES)
  endif()
  list(JOIN ARGN " \\\n    " QC_API_HEADERS)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/Doxyfile.in ${PROJECT_BINARY_DIR}/${name} @ONLY)
endfunction()

if(QC_DOXYGEN)
  set(inside "")
  foreach(room ${QC_ROOMS})
    if(NOT room STREQUAL cli) # the program is not part of the library
      file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${room}/*.h)
      list(APPEND inside ${headers})
    endif()
  endforeach()
  file(GLOB public CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/qcalib/*.h)
  qc_doxyfile(Doxyfile api qcalib YES ${public})
  qc_doxyfile(Doxyfile.inside api-inside "inside qcalib" NO ${inside})
  add_custom_target(docs
    COMMAND ${QC_DOXYGEN} ${PROJECT_BINARY_DIR}/Doxyfile
    COMMAND ${QC_DOXYGEN} ${PROJECT_BINARY_DIR}/Doxyfile.inside
    COMMENT "API reference in ${PROJECT_BINARY_DIR}/api/html/files.html" VERBATIM)
endif()
