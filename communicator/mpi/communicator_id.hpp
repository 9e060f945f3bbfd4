// Communicators in a word, for the watchdog.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tasuki {

// A number that the ranks of `comm` have in common and no other communicator of the job has, never
// 0. Collective. `name` is that of a registered kind.
std::uint64_t make_communicator_id(std::string_view name, MPI_Comm comm);

// The kind's name; empty for 0.
std::string communicator_of_id(std::uint64_t id);

}  // namespace tasuki
