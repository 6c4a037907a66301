# The parts of a wheel that CMake installs (pyproject.toml): the library and the program, in the Python package.
add_custom_target(python_package DEPENDS qcalib_shared qcalib qcalib_bill)
install(FILES $<TARGET_FILE:qcalib_shared> RENAME libqcalib.so DESTINATION qcalib COMPONENT python EXCLUDE_FROM_ALL)
install(PROGRAMS $<TARGET_FILE:qcalib> DESTINATION qcalib/_bin COMPONENT python EXCLUDE_FROM_ALL)
install(FILES ${PROJECT_BINARY_DIR}/qcalib.cdx.json DESTINATION qcalib COMPONENT python EXCLUDE_FROM_ALL)
# Licences of the libraries inside, which scripts/package puts there.
install(DIRECTORY ${PROJECT_BINARY_DIR}/licences/ DESTINATION qcalib/_licences COMPONENT python EXCLUDE_FROM_ALL
        OPTIONAL)
