qc_test(simq_accumulator SOURCES test_accumulator.c LINKS simq)
qc_test(simq_affine SOURCES test_affine.c LINKS simq)
qc_test(simq_contracts SOURCES random_graph.c test_int_contracts.c LINKS simq)
qc_test(simq_integer SOURCES one_number.c plan_print.c random_graph.c test_int_depthwise.c test_int_fits.c test_int_pairs.c test_int_property.c test_int_slabs.c test_int_wide.c LINKS simq COST 45 LOOPS)
qc_test(simq_mac SOURCES test_mac.c test_product.c LINKS simq COST 8)
qc_test(simq_plan SOURCES plan_print.c test_plan.c test_plan_packed.c LINKS simq)
qc_test(simq_plan_run SOURCES plan_print.c test_plan_run.c test_shapes_of_data.c LINKS simq)
qc_test(simq_plan_budget SOURCES test_plan_budget.c LINKS simq)
qc_test(simq_rounding SOURCES random_graph.c test_convert_rows.c test_rounding.c LINKS simq)
qc_test(simq_tile SOURCES random_graph.c test_tile.c LINKS simq COST 8 LOOPS)
qc_test(simq_view SOURCES test_view.c LINKS simq)

# Benchmark against ONNX Runtime: tests/bench/compare_plan.py
add_executable(bench_plan EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/bench/bench_plan.c plan_print.c)
target_link_libraries(bench_plan PRIVATE qc_graph_reader qc_flags)
qc_link_rooms(bench_plan onnx simq)

add_executable(bench_rounding EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/bench/bench_rounding.c)
target_link_libraries(bench_rounding PRIVATE qc_flags)
qc_link_rooms(bench_rounding simq)

# The processor's peak multiply-add rate, for scripts/benchmark_peak.py
add_executable(bench_peak EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/bench/bench_peak.c)
target_link_libraries(bench_peak PRIVATE qc_flags)
qc_link_rooms(bench_peak simq)
