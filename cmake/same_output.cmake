# cmake -DPROGRAM=... -DEXPECTED=... -P same_output.cmake: runs PROGRAM, a list of words, which must succeed and
# print exactly what is in the file EXPECTED.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE printed RESULT_VARIABLE code)
file(READ ${EXPECTED} expected)
if(NOT code EQUAL 0)
    message(FATAL_ERROR "${PROGRAM} exited with ${code}")
endif()
if(NOT printed STREQUAL expected)
    message(FATAL_ERROR "${PROGRAM} printed\n${printed}\ninstead of\n${expected}")
endif()
