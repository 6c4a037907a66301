# Bottom to top. A room may include only rooms of lower lines; scripts/check-rooms checks this.
set(QC_ROOMS base arith graph onnx tflite rewrite simq observers datasets calib export quantize evaluate library cli)
set(QC_LEVEL_base 0)
set(QC_LEVEL_arith 1)
set(QC_LEVEL_graph 2)
foreach(room onnx tflite rewrite simq observers datasets)
  set(QC_LEVEL_${room} 3)
endforeach()
set(QC_LEVEL_calib 4)
set(QC_LEVEL_export 4)
set(QC_LEVEL_quantize 5)
set(QC_LEVEL_evaluate 6)
set(QC_LEVEL_library 7)
set(QC_LEVEL_cli 7)

option(QC_WERROR "Warnings are errors" OFF)
set(QC_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=")
option(QC_COVERAGE "Count executed lines" OFF)
option(QC_ABLATION "Rules of the default can be switched off: calib/ablation.h" OFF)
option(QC_ARENA_DEBUG "Every item of an arena is its own malloc" OFF)

# Flags of every file of the project. Without -march and -ffast-math: vector kernels are chosen at run time, and sums are
# reproducible.
add_library(qc_flags INTERFACE)
target_include_directories(qc_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_include_directories(qc_flags SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/generated)
target_compile_options(qc_flags INTERFACE
  -ffp-contract=off -fno-math-errno
  -Wall -Wextra -Wno-unused-parameter -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes
  -Wdouble-promotion -Wundef -Wvla -Wswitch-enum
  $<$<C_COMPILER_ID:Clang>:-Wno-string-conversion> # assert(!"why")
  $<$<BOOL:${QC_WERROR}>:-Werror>)
# gcc 12.2 (Debian 12) crashes when it vectorizes a maximum of doubles for arm64.
if(CMAKE_C_COMPILER_ID STREQUAL GNU AND CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64"
   AND CMAKE_C_COMPILER_VERSION VERSION_GREATER_EQUAL 12 AND CMAKE_C_COMPILER_VERSION VERSION_LESS 12.3)
  target_compile_options(qc_flags INTERFACE -fno-builtin-fmax -fno-builtin-fmin)
endif()
target_compile_definitions(qc_flags INTERFACE _XOPEN_SOURCE=700 $<$<BOOL:${QC_ARENA_DEBUG}>:QC_ARENA_DEBUG>
  $<$<BOOL:${QC_ABLATION}>:QC_ABLATION>)
foreach(part TFLITE IMAGES GSL)
  if(NOT QCALIB_${part})
    target_compile_definitions(qc_flags INTERFACE QC_WITHOUT_${part})
  endif()
endforeach()

# Hardening of release builds; tests/e2e/test_release.py checks the result. Not for sanitizers, which check the same.
include(CheckCCompilerFlag)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)
if(CMAKE_BUILD_TYPE STREQUAL Release AND NOT QC_SANITIZE)
  # -mbranch-protection: arm64. -fcf-protection: x86.
  foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection -mbranch-protection=standard)
    string(MAKE_C_IDENTIFIER "QC_HAS${flag}" has)
    check_c_compiler_flag("-Werror ${flag}" ${has})
    if(${has})
      add_compile_options(${flag})
    endif()
  endforeach()
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
  add_link_options(LINKER:-z,relro,-z,now,-z,noexecstack)
endif()
# The same bytes in any folder: paths in the program begin at the source folder.
add_compile_options(-ffile-prefix-map=${PROJECT_BINARY_DIR}/=build/ -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)

# Sanitizers and coverage apply to everything that is built here, including generated code and tests.
if(QC_SANITIZE MATCHES thread AND NOT CMAKE_C_COMPILER_ID STREQUAL Clang)
  message(FATAL_ERROR "The thread sanitizer knows the barriers of clang's OpenMP alone: use the preset tsan")
endif()
if(QC_SANITIZE)
  add_compile_options(-fsanitize=${QC_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
    $<$<C_COMPILER_ID:Clang>:-Wno-pass-failed>) # no vectors there
  add_link_options(-fsanitize=${QC_SANITIZE})
endif()
if(QC_COVERAGE)
  add_compile_options(--coverage)
  add_link_options(--coverage)
endif()

# qc_room(NAME SOURCES a.c b.c [LINKS qc_base qc::hdf5 m ...])
#   qc_NAME       object library: the room's files with the project's flags
#   qc_NAME_part  archive of the same objects, from which tests link only what they need
function(qc_room name)
  cmake_parse_arguments(R "" "" "SOURCES;LINKS" ${ARGN})
  add_library(qc_${name} OBJECT ${R_SOURCES})
  target_link_libraries(qc_${name} PUBLIC qc_flags)
  add_library(qc_${name}_part STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:qc_${name}>)
  foreach(link ${R_LINKS})
    string(REGEX REPLACE "^qc_" "" room "${link}")
    # A room finds the headers of other rooms by their path; qc_link_rooms links the objects.
    if(NOT room IN_LIST QC_ROOMS)
      target_link_libraries(qc_${name} PUBLIC ${link})
      target_link_libraries(qc_${name}_part INTERFACE ${link})
      set_property(GLOBAL APPEND PROPERTY QC_LINKS ${link})
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY QC_BUILT_ROOMS ${name})
endfunction()

# qc_link_rooms(TARGET ROOM ...): links the rooms and all rooms below them that exist, top to bottom.
function(qc_link_rooms target)
  set(rooms "")
  foreach(room ${ARGN})
    string(REGEX REPLACE "^qc_" "" room "${room}")
    if(NOT TARGET qc_${room}_part)
      message(FATAL_ERROR "${target}: there is no room '${room}'")
    endif()
    list(APPEND rooms ${room})
    foreach(below ${QC_ROOMS})
      if(QC_LEVEL_${below} LESS QC_LEVEL_${room} AND TARGET qc_${below}_part)
        list(APPEND rooms ${below})
      endif()
    endforeach()
  endforeach()
  set(order ${QC_ROOMS})
  list(REVERSE order)
  foreach(room ${order})
    if(room IN_LIST rooms)
      target_link_libraries(${target} PRIVATE qc_${room}_part)
    endif()
  endforeach()
endfunction()
