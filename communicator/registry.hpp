// Communicators by name.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tasuki/communicator/communicator.hpp"

namespace tasuki {

struct CommunicatorOptions {
  Device device = Device::cpu();      // of this rank
  DType wire_dtype = DType::float32;  // in which gradients travel between GPUs
  bool gpu_is_shared = false;         // ranks may have the same one; alike on all ranks
};

struct CommunicatorKind {
  std::string name;
  std::string summary;  // what travels where
  std::string needs;    // what it needs of the machine
  std::function<std::unique_ptr<Communicator>(MPI_Comm, const CommunicatorOptions&)> create;
  bool needs_gpu = false;  // refused on CPUs
  bool takes_wire_dtype =
      false;  // else gradients travel as they are, and float32 must be asked for
};

// Adds a kind; a user's own program may do so before it creates one. A name that exists is an
// error.
void register_communicator(CommunicatorKind kind);
// All kinds, built-in ones first.
const std::vector<CommunicatorKind>& communicator_kinds();
// The table that `--communicator help` prints.
std::string communicator_help();

// Makes a communicator over `comm` (duplicated, so that its messages are its own). An unknown name
// is a usage error that lists the known ones.
std::unique_ptr<Communicator> create_communicator(std::string_view name,
                                                  MPI_Comm comm = MPI_COMM_WORLD,
                                                  const CommunicatorOptions& options = {});

// Registers class Kind, made as Kind(name, comm, options), when the program is loaded:
//   const Registration<MyCommunicator> registration{"mine", "what travels where", "any MPI"};
template <class Kind>
struct Registration {
  Registration(const std::string& name, const std::string& summary, const std::string& needs,
               bool needs_gpu = false, bool takes_wire_dtype = false) {
    const auto create = [name](MPI_Comm comm, const CommunicatorOptions& options) {
      return std::make_unique<Kind>(name, comm, options);
    };
    register_communicator({name, summary, needs, create, needs_gpu, takes_wire_dtype});
  }
};

}  // namespace tasuki
