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
    if (error.scope() == ErrorScope::this_rank) leave(communicator, error.what());
  } catch (const std::exception& error) {
    leave(communicator, error.what());
  } catch (...) {
    leave(communicator, "an exception of unknown type");
  }
}

}  // namespace tasuki
