#include "communicator/registry.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "communicator/mpi/mpi.hpp"
#include "communicator/mpi_comm.hpp"
#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"

namespace tasuki {
namespace {

// The files in kinds/ register their kinds themselves (CommunicatorRegistration), before main and
// in an unknown order, which is why this is a local static.
std::vector<CommunicatorKind>& kinds() {
  static std::vector<CommunicatorKind> instance;
  return instance;
}

}  // namespace

void register_communicator(CommunicatorKind kind) {
  for (const auto& known : kinds())
    if (known.name == kind.name)
      fail(ErrorKind::internal, "a communicator named {} is registered already", kind.name);
  kinds().push_back(std::move(kind));
}

const std::vector<CommunicatorKind>& communicator_kinds() {
  return kinds();
}

std::string communicator_help() {
  std::string table = fmt::format("{:<16} {:<70} {}\n", "name", "what it does", "needs");
  for (const auto& kind : kinds())
    table += fmt::format("{:<16} {:<70} {}\n", kind.name, kind.summary, kind.needs);
  return table;
}

std::unique_ptr<Communicator> create_communicator(std::string_view name,
                                                  const CommunicatorOptions& options) {
  return create_communicator(CommunicatorSetup{.name = std::string(name), .options = options});
}

MPI_Comm mpi_comm(const Communicator& communicator) {
  return communicator.mpi().get();
}

std::unique_ptr<Communicator> create_communicator(std::string_view name, MPI_Comm comm,
                                                  const CommunicatorOptions& options) {
  const MpiComm ranks = MpiComm::refer_to(comm);
  return create_communicator(
      CommunicatorSetup{.name = std::string(name), .options = options, .ranks = &ranks});
}

std::unique_ptr<Communicator> create_communicator(const CommunicatorSetup& setup) {
  const std::string& name = setup.name;
  const auto kind = std::find_if(kinds().begin(), kinds().end(),
                                 [&](const CommunicatorKind& known) { return known.name == name; });
  if (kind == kinds().end()) {
    std::vector<std::string> names;
    for (const auto& known : kinds()) names.push_back(known.name);
    fail_everywhere(ErrorKind::usage, "unknown communicator '{}'; expected one of {}", name,
                    join(names, ", "));
  }
  if (kind->needs_gpu && setup.options.device.is_cpu())
    fail_everywhere(
        ErrorKind::config,
        "the communicator {} needs --gpu: it works on the memory of GPUs; on CPUs use auto", name);
  if (!kind->takes_wire_dtype && setup.options.wire_dtype != DType::float32)
    fail_everywhere(ErrorKind::config,
                    "the communicator {} sends gradients as float32; to send them as {}, use "
                    "another one (all of Tasuki's can)",
                    name, name_of(setup.options.wire_dtype));
  if (setup.options.wire_dtype != DType::float32 &&
      setup.options.algorithm == AllreduceAlgorithm::mpi)
    fail_everywhere(ErrorKind::config,
                    "MPI_Allreduce sends float32 as it is; to send gradients as {}, use ring, "
                    "halving-doubling, tree or direct",
                    name_of(setup.options.wire_dtype));
  if (!kind->takes_algorithm && setup.options.algorithm)
    fail_everywhere(
        ErrorKind::config,
        "the communicator {} does not send an allreduce's messages itself, so it cannot "
        "use the algorithm {}; hierarchical, two_dimensional, non_cuda_aware and flat can",
        name, name_of(*setup.options.algorithm));
  const WaitScope waiting(Waiting::create_communicator);
  return kind->create(setup);
}

}  // namespace tasuki
