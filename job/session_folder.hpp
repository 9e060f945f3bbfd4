// Where Open MPI keeps the files of a job while it runs.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace tasuki {

// Bytes that Open MPI 4.1 needs there: it takes 8.03 MiB in a process without mpirun; 8 were too
// few for two ranks, 12 were enough. Open MPI 5 needs less, 0.1 MiB for two ranks.
inline constexpr std::size_t session_of_process = std::size_t{9} << 20,
                             session_of_job = std::size_t{12} << 20;

// Throws an error of kind cannot_write that names the folder and the cause, unless Open MPI can
// make files of so many bytes there. The folder, which Open MPI makes if it is missing, is `base`,
// the value of its parameter orte_tmpdir_base (in version 5 prte_tmpdir_base), else $TMPDIR, $TEMP,
// $TMP or /tmp. Open MPI itself prints two pages, hangs, or ends with SIGBUS. With another MPI
// nothing is checked.
void check_session_folder(std::size_t needed, const std::optional<std::string>& base);

}  // namespace tasuki
