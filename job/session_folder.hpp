// Where Open MPI keeps the files of a job while it runs.
#pragma once

namespace tasuki {

// Throws an error of kind cannot_write that names the folder and the cause, unless Open MPI can
// make its files there: some 12 MB in $OMPI_MCA_orte_tmpdir_base, $TMPDIR, $TEMP, $TMP or /tmp,
// which it makes if it is missing. Open MPI itself prints two pages, or hangs. With another MPI
// nothing is checked.
void check_session_folder();

}  // namespace tasuki
