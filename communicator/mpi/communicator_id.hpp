// Identifies a communicator by a number, which the watchdog can publish and read.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tasuki {

// A number for a new communicator of the kind `name` among the ranks of `comm`: the same on all of
// them, never 0, and unique in the job. Collective.
std::uint64_t make_communicator_id(std::string_view name, MPI_Comm comm);

// The kind's name; empty for 0 and for kinds that are not registered.
std::string communicator_of_id(std::uint64_t id);

}  // namespace tasuki
