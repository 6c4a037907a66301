# Writes a CycloneDX list of the libraries that FILE is linked with (`cmake -P`; cmake/library.cmake calls it after the
# link). The names are those that the dynamic linker will load, read from FILE, and those of STATIC. The versions are
# those of pkg-config, the compiler (OpenMP) and the C library. A library without a version is an error.
#   FILE=libqcalib.so OUT=qcalib.cdx.json NAME= VERSION= READELF= KNOWN="libgsl=gsl@2.7.1;..." STATIC="hdf5@1.10.8;..."
execute_process(COMMAND ${READELF} -dW ${FILE} OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "\\(NEEDED\\)[^[]*\\[[^]]*\\]" needed "${dynamic}")
set(components "")
set(references "")

# Appends to both lists. more: members of the component beyond these, with a comma before them.
function(add_component ref name version more)
  list(APPEND references "\"${ref}\"")
  list(APPEND components "    {
      \"type\": \"library\",
      \"bom-ref\": \"${ref}\",
      \"name\": \"${name}\",
      \"version\": \"${version}\",
      \"purl\": \"pkg:generic/${name}@${version}\"${more}
    }")
  set(references "${references}" PARENT_SCOPE)
  set(components "${components}" PARENT_SCOPE)
endfunction()

foreach(line ${needed})
  string(REGEX REPLACE ".*\\[(.*)\\]" "\\1" file "${line}")
  string(REGEX REPLACE "\\.so.*" "" stem "${file}")
  set(found "")
  foreach(known ${KNOWN})
    if(NOT found AND known MATCHES "^([^=]*)=([^@]*)@(.*)$" AND stem STREQUAL CMAKE_MATCH_1)
      set(found "${CMAKE_MATCH_2}")
      set(version "${CMAKE_MATCH_3}")
    endif()
  endforeach()
  if(NOT found OR NOT version)
    message(FATAL_ERROR "${FILE} is linked with ${file}, of which no version is known")
  endif()
  add_component("${file}" "${found}" "${version}" ",
      \"properties\": [{\"name\": \"soname\", \"value\": \"${file}\"}]")
endforeach()
foreach(one ${STATIC})
  string(REGEX MATCH "^([^@]*)@(.+)$" whole "${one}")
  if(NOT whole)
    message(FATAL_ERROR "${FILE} has ${one} inside, of which no version is known")
  endif()
  add_component("${CMAKE_MATCH_1}" "${CMAKE_MATCH_1}" "${CMAKE_MATCH_2}" "")
endforeach()
if(NOT components)
  message(FATAL_ERROR "${FILE}: no libraries were found")
endif()
list(JOIN components ",\n" components)
list(JOIN references ", " references)
file(WRITE ${OUT} "{
  \"bomFormat\": \"CycloneDX\",
  \"specVersion\": \"1.5\",
  \"version\": 1,
  \"metadata\": {
    \"component\": {
      \"type\": \"application\",
      \"bom-ref\": \"${NAME}\",
      \"name\": \"${NAME}\",
      \"version\": \"${VERSION}\",
      \"licenses\": [{\"license\": {\"id\": \"Apache-2.0\"}}]
    }
  },
  \"components\": [
${components}
  ],
  \"dependencies\": [{\"ref\": \"${NAME}\", \"dependsOn\": [${references}]}]
}
")
