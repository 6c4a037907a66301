# qc_room(NAME SOURCES a.c b.c LINKS lib ...): one static target qc_NAME per room, with the project's flags.
add_library(qc_flags INTERFACE)
target_include_directories(qc_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
target_compile_options(qc_flags INTERFACE
  -ffp-contract=off -fno-math-errno
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes
  -Wdouble-promotion -Wundef -Wvla -Wswitch-enum)
target_compile_definitions(qc_flags INTERFACE _POSIX_C_SOURCE=200809L)

function(qc_room name)
  cmake_parse_arguments(R "" "" "SOURCES;LINKS" ${ARGN})
  add_library(qc_${name} OBJECT ${R_SOURCES})
  target_link_libraries(qc_${name} PUBLIC qc_flags ${R_LINKS})
endfunction()
