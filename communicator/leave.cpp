#include "communicator/leave.hpp"

#include <exception>
#include <string>

#include "communicator/communicator.hpp"
#include "communicator/mpi/departures.hpp"
#include "communicator/mpi/operation_scopes.hpp"
#include "core/error.hpp"
#include "tensor/out_of_memory.hpp"

namespace tasuki {

void leave(Communicator& communicator, std::string_view why) noexcept {
  CollectiveScope::departures_of(communicator).announce(why);
}

void leave_after_error(Communicator& communicator) noexcept {
  try {
    throw;
  } catch (const OutOfMemory&) {
    // Searches for the largest batch go on after it, on all ranks.
  } catch (const Error& error) {
    // Only a part of the ranks meets this error, and this rank is the first of that part.
    const bool is_of_part =
        error.scope() == ErrorScope::every_rank_printed_here &&
        communicator.topology().shared_error_scope != ErrorScope::every_rank_printed_here;
    if (error.scope() == ErrorScope::this_rank || is_of_part) leave(communicator, error.what());
  } catch (const std::exception& error) {
    leave(communicator, error.what());
  } catch (...) {
    leave(communicator, "an exception of unknown type");
  }
}

}  // namespace tasuki
