// CollectiveScope and MessageScope: every operation of a communicator begins with one of them,
// whether it is a member of Communicator or a free function.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "communicator/communicator.hpp"
#include "communicator/mpi/mpi.hpp"
#include "core/activity.hpp"
#include "core/polite_wait.hpp"

namespace tasuki {

class Departures;

// RAII: a collective operation.
class CollectiveScope {
 public:
  // Shows the watchdog that this rank waits in the operation, and compares the calls of all ranks.
  template <class... Arguments>
  CollectiveScope(const Communicator& communicator, Waiting kind, std::size_t bytes,
                  fmt::format_string<Arguments...> call, Arguments&&... arguments)
      : communicator_(communicator),
        waiting_(kind, communicator.id_, communicator.operations_,
                 static_cast<std::int64_t>(bytes)),
        check_(check_of(communicator)) {
    compare_calls(communicator, call, std::forward<Arguments>(arguments)...);
  }
  // For a number of bytes that is unknown at the beginning, or if no bytes travel.
  template <class... Arguments>
  CollectiveScope(const Communicator& communicator, Waiting kind,
                  fmt::format_string<Arguments...> call, Arguments&&... arguments)
      : CollectiveScope(communicator, kind, std::size_t{0}, call,
                        std::forward<Arguments>(arguments)...) {}

  // With CollectiveCheck: compares the calls of all ranks, as fmt::format(call). An exchange in the
  // background was compared when it was started.
  template <class... Arguments>
  static void compare_calls(const Communicator& communicator, fmt::format_string<Arguments...> call,
                            Arguments&&... arguments) {
    if (is_compared(communicator))
      compare(communicator, fmt::format(call, std::forward<Arguments>(arguments)...));
  }

  static Departures& departures_of(const Communicator& communicator);

  // MPI's handle; an error while an exchange of gradients runs in the background.
  MPI_Comm comm() const { return communicator_.comm().get(); }

 private:
  // Throws if a rank has left; the result looks for that during waits.
  static std::function<void()> check_of(const Communicator& communicator);
  static bool is_compared(const Communicator& communicator);
  static void compare(const Communicator& communicator, const std::string& call);

  const Communicator& communicator_;
  WaitScope waiting_;
  WaitCheck check_;

  friend class MessageScope;
};

// RAII: a message to or from another rank.
class MessageScope {
 public:
  // Refuses a peer that is not another rank (any_source is allowed with Waiting::recv), and shows
  // the watchdog that this rank waits for the peer. `operation` is used in error messages.
  MessageScope(const Communicator& communicator, Waiting kind, const char* operation, int peer);

  MPI_Comm comm() const { return comm_; }  // used for messages only

 private:
  MPI_Comm comm_;
  WaitScope waiting_;
  WaitCheck check_;
};

// Refuses a root that is not a rank of the communicator; all ranks throw the same error.
void check_root(const Communicator& communicator, const char* operation, int root);

}  // namespace tasuki
