// CollectiveCheck: detects ranks that call a different operation than the others.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "communicator/mpi/mpi.hpp"
#include "communicator/topology.hpp"

namespace tasuki {

// For programs whose own code calls a Communicator. Without it, ranks that do not call the same
// operations in the same order wait for each other until the watchdog ends them
// (job/watchdog.hpp), or get each other's values.
class CollectiveCheck {
 public:
  // For a communicator of the kind `name` among the ranks of `comm`. Null on all ranks unless rank
  // 0 has TASUKI_CHECK_COLLECTIVES=1 in its environment. `keep` takes a handle that the check
  // makes, and returns it; it must stay valid as long as the check. Collective.
  static std::unique_ptr<CollectiveCheck> make(const std::string& name, MPI_Comm comm,
                                               const Topology& topology,
                                               const std::function<MPI_Comm(MpiComm)>& keep);

  // Called before each operation with its description, "allreduce of 10 float32 (sum)". Waits for
  // all ranks. If the descriptions differ, all ranks throw the same error
  // (ErrorKind::disagreement). It names the ranks that deviate from the majority, with their calls,
  // or all calls if there is no majority. Sends one reduction of 16 bytes.
  void compare(const std::string& operation);

 private:
  CollectiveCheck(const std::string& name, MPI_Comm comm, const Topology& topology);
  [[noreturn]] void fail_with(const std::string& operation) const;

  std::string name_;
  MPI_Comm comm_;  // separate, so that its messages never mix with the operations' own
  const Topology& topology_;
  std::int64_t number_ = 0;  // of operations compared so far
};

}  // namespace tasuki
