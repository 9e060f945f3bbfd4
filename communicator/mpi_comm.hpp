// Tasuki's communicators and MPI's own, for programs that call MPI themselves.
#pragma once

#include <mpi.h>

#include <memory>
#include <string_view>

#include "communicator/registry.hpp"

namespace tasuki {

// MPI's communicator with the same ranks in the same order. Tasuki sends nothing through it. It
// belongs to `communicator` and lives as long; its errors are returned (MPI_ERRORS_RETURN).
MPI_Comm mpi_comm(const Communicator& communicator);

// create_communicator() among the ranks of `comm`, which is duplicated. Collective over `comm`.
std::unique_ptr<Communicator> create_communicator(std::string_view name, MPI_Comm comm,
                                                  const CommunicatorOptions& options = {});

}  // namespace tasuki
