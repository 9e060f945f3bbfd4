// Creates communicators by name, and registers kinds.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "communicator/communicator.hpp"

namespace tasuki {

struct CommunicatorKind {
  std::string name;
  std::string summary;  // which data travels how
  std::string needs;    // requirements on the machine
  std::function<std::unique_ptr<Communicator>(const CommunicatorSetup&)> create;
  bool needs_gpu = false;         // refused on CPUs
  bool takes_wire_dtype = false;  // else any CommunicatorOptions::wire_dtype but float32 is refused
  bool takes_algorithm = false;   // else any CommunicatorOptions::algorithm is refused
};

// Adds a kind, before the first communicator is created. A name that is taken is an error.
void register_communicator(CommunicatorKind kind);

// Registers a kind when the program is loaded. The class is constructed from a CommunicatorSetup:
//   const CommunicatorRegistration<MyCommunicator> registration{
//       "mine", "what travels where", "any MPI"};
template <class Kind>
struct CommunicatorRegistration {
  CommunicatorRegistration(const std::string& name, const std::string& summary,
                           const std::string& needs, bool needs_gpu = false,
                           bool takes_wire_dtype = false, bool takes_algorithm = false) {
    const auto create = [](const CommunicatorSetup& setup) {
      return std::make_unique<Kind>(setup);
    };
    register_communicator(
        {name, summary, needs, create, needs_gpu, takes_wire_dtype, takes_algorithm});
  }
};

// All kinds, built-in ones first.
const std::vector<CommunicatorKind>& communicator_kinds();
// The table that `--communicator help` prints.
std::string communicator_help();

// Creates a communicator among all ranks of the job. An unknown name is a usage error that lists
// the known names; a kind that cannot run here is an error of kind config that names an
// alternative. mpi_comm.hpp has an overload for programs with their own MPI_Comm. Collective.
std::unique_ptr<Communicator> create_communicator(std::string_view name,
                                                  const CommunicatorOptions& options = {});
std::unique_ptr<Communicator> create_communicator(const CommunicatorSetup& setup);

}  // namespace tasuki
