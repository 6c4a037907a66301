# Files that are generated at build time, in build/generated/ROOM/ (ROOM: the folder of the calling CMakeLists.txt).
# Include them as "ROOM/x.h".

# qc_embed(SOURCES_VARIABLE NAME FILES a.rules b.rules ...)
#   Embeds text files in the program: NAME.h declares `extern const struct qc_embedded qc_NAME[]` (base/embed.h) and
#   `extern const size_t qc_NAME_count`, in the order given. SOURCES_VARIABLE receives the files for
#   qc_room(... SOURCES).
function(qc_embed sources name)
  cmake_parse_arguments(E "" "" "FILES" ${ARGN})
  file(RELATIVE_PATH room ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(out ${PROJECT_BINARY_DIR}/generated/${room}/${name})
  set(files "")
  foreach(file ${E_FILES})
    get_filename_component(file ${file} ABSOLUTE)
    list(APPEND files ${file})
  endforeach()
  add_custom_command(OUTPUT ${out}.c ${out}.h
    COMMAND ${CMAKE_COMMAND} -DNAME=${name} -DOUT=${out} -DINCLUDE=${room}/${name}.h "-DFILES=${files}"
            -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    COMMENT "Embedding ${name}" VERBATIM)
  set_source_files_properties(${out}.c PROPERTIES SKIP_LINTING ON)
  set(${sources} ${out}.c ${out}.h PARENT_SCOPE)
endfunction()

# qc_protoc_c(SOURCES_VARIABLE FILE.proto): protobuf-c code of a .proto file of the system (onnx/onnx.proto ->
# build/generated/onnx/onnx.pb-c.{c,h}).
function(qc_protoc_c sources proto)
  find_program(QC_PROTOC_C protoc-c)
  find_path(QC_PROTO_FOLDER ${proto})
  if(NOT QC_PROTOC_C OR NOT QC_PROTO_FOLDER)
    message(FATAL_ERROR "qcalib needs protobuf-c-compiler and libonnx-dev (${proto}): run scripts/setup")
  endif()
  string(REGEX REPLACE "\\.proto$" "" stem ${proto})
  set(out ${PROJECT_BINARY_DIR}/generated/${stem}.pb-c)
  add_custom_command(OUTPUT ${out}.c ${out}.h
    COMMAND ${QC_PROTOC_C} --proto_path=${QC_PROTO_FOLDER} --c_out=${PROJECT_BINARY_DIR}/generated ${proto}
    DEPENDS ${QC_PROTO_FOLDER}/${proto}
    COMMENT "Generating ${stem}.pb-c" VERBATIM)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/generated)
  set_source_files_properties(${out}.c PROPERTIES COMPILE_OPTIONS -w SKIP_LINTING ON)
  set(${sources} ${out}.c ${out}.h PARENT_SCOPE)
endfunction()
