#include "communicator/mpi/array_send.hpp"

#include "communicator/host_values.hpp"
#include "communicator/mpi/array_header.hpp"
#include "communicator/mpi/transfer.hpp"

namespace tasuki {
namespace {

std::vector<Tensor> sent_from_host(std::span<const Tensor> tensors) {
  std::vector<Tensor> values;
  for (const Tensor& tensor : tensors) {
    TASUKI_CHECK(tensor.defined(), "send of an undefined tensor");
    values.push_back(HostValues(tensor).tensor());
  }
  return values;
}

MessageStart start_of(const std::vector<Tensor>& values) {
  const std::vector<ArrayHeader> headers(values.begin(), values.end());
  return {MessageKind::arrays, std::as_bytes(std::span(headers))};
}

}  // namespace

ArraySend::ArraySend(std::span<const Tensor> tensors, int dest, int tag, MPI_Comm comm,
                     std::int64_t limit)
    : dest_(dest), values_(sent_from_host(tensors)), start_(start_of(values_)) {
  start_.send(requests_, dest, tag, comm);
  for (const Tensor& tensor : values_)
    start_send(requests_, bytes_of(tensor), dest, tag, comm, limit);
}

}  // namespace tasuki
