// Conversions between Tasuki's and MPI's communicators, for programs that call MPI themselves.
#pragma once

#include <mpi.h>

#include <memory>
#include <string_view>

#include "communicator/registry.hpp"

namespace tasuki {

// An MPI communicator with the same ranks in the same order. Tasuki sends nothing through it. It
// belongs to `communicator`, lives as long, and returns errors (MPI_ERRORS_RETURN).
MPI_Comm mpi_comm(const Communicator& communicator);

// create_communicator() among the ranks of `comm`, which is duplicated. Collective over `comm`.
std::unique_ptr<Communicator> create_communicator(std::string_view name, MPI_Comm comm,
                                                  const CommunicatorOptions& options = {});

}  // namespace tasuki
