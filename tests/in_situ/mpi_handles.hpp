// The handles that MPI has given out and not got back, counted by wrappers of its functions (PMPI).
#pragma once

namespace tasuki::testing {

struct MpiHandles {
  int communicators = 0, groups = 0, types = 0, operations = 0, error_handlers = 0;
  friend bool operator==(const MpiHandles&, const MpiHandles&) = default;
};

// Those of this process.
MpiHandles open_mpi_handles();

}  // namespace tasuki::testing
