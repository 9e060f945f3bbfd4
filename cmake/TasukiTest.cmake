# tasuki_test(<name> SOURCES files... [NP 1 2 3 4] [CLUSTER 2x2 3+1...] [TIMEOUT seconds] [LINK libs...])
#
# Builds one GoogleTest binary, test_<name>, and its ctest entries. Its sources are compiled in groups
# (cmake/TasukiGroups.cmake), so names in their unnamed namespaces must differ. The entries:
#   without NP    <name>: a plain process
#   NP            <name>.np<N>: under mpirun with N ranks, for each N
#   CLUSTER       <name>.<nodes>x<ranks>, <name>.<ranks>+<ranks>: on nodes of so many ranks each, made
#                 of network namespaces (tests/cluster/run.sh); <name>.2x2cyclic: dealt in turn
# Binaries that need MPI get tests/support's main, which prints once and gathers the failures of
# every rank. An entry in which every test skipped itself shows as skipped, and one whose filter
# chooses no test fails. TIMEOUT (default 120): seconds that an entry may take on a machine that does
# nothing else; after three times as long all its processes are ended.
#
# tasuki_script_test(<name> COMMAND words... [TIMEOUT seconds] [PROCESSORS n]
#                    [ENVIRONMENT assignments...])
#
# The same for a script; exit code 77 means skipped, and it says why. PROCESSORS (default 1): how many
# cores it keeps busy, which is less than it has processes: ranks wait for MPI's start and for each
# other, and give up their core meanwhile.
#
# tasuki_quick(<target> <entries...>)
#
# Makes these entries of the folder a part of ./test.sh --quick, which builds their binary.
#
# tasuki_mpi_tests([PROGRAMS targets...])
# tasuki_mpi_tests(TARGETS targets... TESTS entries...)
#
# Makes all of the folder, with programs of other folders that its entries run, or these alone, a
# part of ./test.sh --mpi.
#
# tasuki_test_paths(<target> <NAME> <path> [<NAME> <path>...])
#
# Defines NAME in the target's sources as an expression whose value is the path, a std::string
# (tests/support/paths.hpp). A path in the definition would have every clone compile the file anew.

find_package(GTest REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)  # tests of scripts

# The launcher with its flags, up to -np. Hydra gives every rank all cores, and takes any number of
# ranks and root, without a flag; tests, tests/cluster/run.sh and tasuki-run find it by TASUKI_MPIEXEC.
if(TASUKI_MPI_IS_HYDRAS)
  set(TASUKI_MPIRUN ${TASUKI_MPIEXEC})
  # Intel MPI's ranks give up a core while they wait; tests have more ranks than cores.
  set(TASUKI_MPIRUN_ENVIRONMENT OMP_NUM_THREADS=1 I_MPI_PIN=0 I_MPI_THREAD_YIELD=2)
  set(TASUKI_TEST_MPIEXEC TASUKI_MPIEXEC=${TASUKI_MPIEXEC})
else()
  set(TASUKI_MPIRUN ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none)
  set(TASUKI_MPIRUN_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
      OMP_NUM_THREADS=1 OMPI_MCA_btl_vader_single_copy_mechanism=none)
  set(TASUKI_TEST_MPIEXEC)
endif()
# Programs with sanitizers take several times as long: limits grow by this factor, here and in the
# tests (tests/support/patience.hpp), which allow for the machine's load, too.
set(TASUKI_TEST_PATIENCE 1)
if(TASUKI_SANITIZE)
  set(TASUKI_TEST_PATIENCE 8)
  # Tasuki has alternate stacks of its own (core/alternate_stack.hpp).
  set(TASUKI_SANITIZER_ENVIRONMENT
      ASAN_OPTIONS=use_sigaltstack=0
      LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/leaks/lsan.supp:print_suppressions=0
      TASUKI_TEST_PATIENCE=${TASUKI_TEST_PATIENCE})
  target_sources(tasuki PRIVATE ${PROJECT_SOURCE_DIR}/tests/leaks/keep_modules.cpp)
endif()

# What is not tested with sanitizers: name and reason. The entry is there, and says so.
set(TASUKI_NOT_SANITIZED
    install "programs of users are built without sanitizers against the installed tree"
    bundle "a bundle has no libraries of sanitizers"
    leaks "valgrind cannot run programs with sanitizers"
    readme_commands "quickstart.sh builds without sanitizers"
    faults "the figures of the fault suite are those of a release"
    faults_interrupted "the figures of the fault suite are those of a release"
    fuzz "the harnesses have clang's own sanitizers: ./test.sh --fuzz"
    simulated_gpu "CUDA is left out: threads of a simulated block are fibers, whose stacks \
AddressSanitizer does not know")

# The entries that take longest. ctest starts them first and in this order: one that came last would
# leave the other cores idle.
set(TASUKI_LONG_TESTS
    readme_commands install compare_bits app_predict leaks elsewhere stalls.nodes simulated_gpu.own_gpus.np2
    app_tasuki_run terminals gpu_check app_doctor check_claims app_imagenet app_checkpoint stalls.start docs
    app_own_program app_resume bundle)

function(tasuki_script_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;PROCESSORS" "COMMAND;ENVIRONMENT" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(NOT ARG_PROCESSORS)
    set(ARG_PROCESSORS 1)
  endif()
  list(PREPEND ARG_ENVIRONMENT ${TASUKI_SANITIZER_ENVIRONMENT} TASUKI_CHECK_LATE_VALUES=1
       TASUKI_CHECK_MEMORY=1 ${TASUKI_TEST_MPIEXEC})
  list(FIND TASUKI_NOT_SANITIZED ${name} at)
  if(TASUKI_SANITIZE AND NOT at EQUAL -1)
    math(EXPR at "${at} + 1")
    list(GET TASUKI_NOT_SANITIZED ${at} reason)
    set(ARG_COMMAND sh -c "echo \"skipped: $1\" && exit 77" sh ${reason})
    set(ARG_PROCESSORS 1)
  endif()
  math(EXPR ARG_TIMEOUT "3 * ${ARG_TIMEOUT} * ${TASUKI_TEST_PATIENCE}")
  # ctest's own limit ends the first process only; `timeout` ends the group, mpirun and ssh included.
  math(EXPR last_resort "${ARG_TIMEOUT} + 20")
  add_test(NAME ${name} COMMAND timeout -k 10 ${ARG_TIMEOUT} ${ARG_COMMAND})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${last_resort} PROCESSORS ${ARG_PROCESSORS}
                                          SKIP_RETURN_CODE 77 ENVIRONMENT "${ARG_ENVIRONMENT}")
  list(FIND TASUKI_LONG_TESTS ${name} at)
  if(NOT at EQUAL -1)
    math(EXPR cost "1000 - ${at}")  # more than the seconds that ctest remembers of others
    set_tests_properties(${name} PROPERTIES COST ${cost})
  endif()
endfunction()

function(tasuki_quick target)
  set_property(TEST ${ARGN} APPEND PROPERTY LABELS quick)
  set_property(GLOBAL APPEND PROPERTY TASUKI_QUICK_TARGETS ${target})
endfunction()

function(tasuki_mpi_tests)
  cmake_parse_arguments(ARG "" "" "PROGRAMS;TARGETS;TESTS" ${ARGN})
  if(ARG_TARGETS AND NOT ARG_TESTS)
    message(FATAL_ERROR "tasuki_mpi_tests: TARGETS without TESTS")
  endif()
  if(NOT ARG_TESTS)
    get_property(ARG_TARGETS DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
    get_property(ARG_TESTS DIRECTORY PROPERTY TESTS)
  endif()
  set_property(TEST ${ARG_TESTS} APPEND PROPERTY LABELS mpi)
  set_property(GLOBAL APPEND PROPERTY TASUKI_MPI_TARGETS ${ARG_TARGETS} ${ARG_PROGRAMS})
endfunction()

function(tasuki_test_paths target)
  target_link_libraries(${target} PRIVATE tasuki_test_paths)
  while(ARGN)
    list(POP_FRONT ARGN name path)
    set(relative $<PATH:RELATIVE_PATH,${path},${PROJECT_BINARY_DIR}>)
    target_compile_definitions(${target} PRIVATE
                               "${name}=tasuki::testing::from_build(\"${relative}\")")
  endwhile()
endfunction()

# How many cores so many ranks keep busy: measured, 0.9 with two, 1.2 with four, 1.3 with eight.
function(tasuki_processors result ranks)
  math(EXPR processors "(${ranks} + 3) / 4")
  set(${result} ${processors} PARENT_SCOPE)
endfunction()

function(tasuki_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;NP;CLUSTER;LINK" ${ARGN})
  tasuki_groups(sources test_${name} ${ARG_SOURCES})
  add_executable(test_${name} ${sources})
  target_link_libraries(test_${name} PRIVATE tasuki tasuki_compiler ${ARG_LINK})
  set(common)
  if(ARG_TIMEOUT)
    list(APPEND common TIMEOUT ${ARG_TIMEOUT})
  endif()

  if(NOT ARG_NP AND NOT ARG_CLUSTER)
    target_link_libraries(test_${name} PRIVATE tasuki_test_plain)
    tasuki_script_test(${name} COMMAND $<TARGET_FILE:test_${name}> ${common})
    return()
  endif()
  target_link_libraries(test_${name} PRIVATE tasuki_test_mpi)
  foreach(np IN LISTS ARG_NP)
    tasuki_processors(processors ${np})
    tasuki_script_test(
      ${name}.np${np} PROCESSORS ${processors} ${common}
      ENVIRONMENT "${TASUKI_MPIRUN_ENVIRONMENT};TASUKI_TEST_NP=${np}"
      COMMAND ${TASUKI_MPIRUN} -np ${np} $<TARGET_FILE:test_${name}>)
  endforeach()
  foreach(cluster IN LISTS ARG_CLUSTER)
    if(cluster MATCHES "^([0-9]+)x([0-9]+)(cyclic)?$")
      math(EXPR np "${CMAKE_MATCH_1} * ${CMAKE_MATCH_2}")
      set(nodes --nodes ${CMAKE_MATCH_1} --slots ${CMAKE_MATCH_2})
      if(CMAKE_MATCH_3)
        list(APPEND nodes --map-by node)
      endif()
    else()
      math(EXPR np "${cluster}")
      string(REPLACE "+" "," slots ${cluster})
      set(nodes --slots ${slots})
    endif()
    tasuki_processors(processors ${np})
    tasuki_script_test(
      ${name}.${cluster} PROCESSORS ${processors} ${common}
      ENVIRONMENT "${TASUKI_MPIRUN_ENVIRONMENT};TASUKI_TEST_NP=${np}"
      COMMAND ${PROJECT_SOURCE_DIR}/tests/cluster/run.sh ${nodes} -- $<TARGET_FILE:test_${name}>)
  endforeach()
endfunction()
