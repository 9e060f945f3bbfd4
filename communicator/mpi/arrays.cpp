// Arrays between ranks: headers first, then the elements, straight from and into tensors' memory.
#include "communicator/communicator.hpp"
#include "communicator/host_values.hpp"
#include "communicator/mpi/array_header.hpp"
#include "communicator/mpi/array_send.hpp"
#include "communicator/mpi/message.hpp"
#include "communicator/mpi/operation_scopes.hpp"
#include "communicator/mpi/transfer.hpp"

namespace tasuki {
namespace {

constexpr int tag_of_elements = 1;
constexpr int header_bytes = sizeof(ArrayHeader);

Tensor on_host(const char* operation, const Tensor& tensor) {
  TASUKI_CHECK(tensor.defined(), "{} of an undefined tensor", operation);
  return HostValues(tensor).tensor();
}

std::vector<Tensor> all_on_host(const char* operation, std::span<const Tensor> tensors) {
  std::vector<Tensor> values;
  for (const Tensor& tensor : tensors) values.push_back(on_host(operation, tensor));
  return values;
}

std::vector<ArrayHeader> headers_of(std::span<const Tensor> tensors) {
  return {tensors.begin(), tensors.end()};
}

std::vector<Tensor> delivered(std::vector<Tensor> tensors, Device device) {
  for (Tensor& tensor : tensors) tensor = tensor.to(device);
  return tensors;
}

void check_number(const char* operation, std::size_t given, std::size_t ranks) {
  if (given != ranks)
    fail(ErrorKind::usage, "{}: expected one tensor per rank ({}), found {}", operation, ranks,
         given);
}

}  // namespace

void Communicator::send(std::span<const Tensor> tensors, int dest, int tag) {
  const MessageScope scope(*this, Waiting::send, "send", dest);
  ArraySend(tensors, dest, tag, scope.comm(), call_bytes()).wait();
}

std::vector<Tensor> Communicator::recv_many(int source, int tag) {
  const MessageScope scope(*this, Waiting::recv, "recv", source);
  const auto start = MessageStart::receive(MessageKind::arrays, source, tag, scope.comm());
  const auto tensors = make_all(start.contents<ArrayHeader>());
  MpiRequests requests;
  for (const Tensor& tensor : tensors)
    start_recv(requests, bytes_of(tensor), start.source(), start.tag(), scope.comm(), call_bytes());
  requests.wait();
  return delivered(tensors, options().device);
}

Tensor Communicator::bcast(const Tensor& tensor, int root) {
  const CollectiveScope scope(*this, Waiting::bcast, "bcast from rank {}", root);
  check_root(*this, "bcast", root);
  Tensor values;
  if (rank() == root) values = on_host("bcast", tensor);
  ArrayHeader header;
  if (rank() == root) header = ArrayHeader(values);
  TASUKI_MPI(MPI_Bcast, &header, header_bytes, MPI_BYTE, root, comm().get());
  if (rank() != root) values = header.make();
  tasuki::bcast(bytes_of(values), root, comm().get(), call_bytes());
  return (rank() == root ? tensor : values).to(options().device);
}

std::vector<Tensor> Communicator::gather(const Tensor& tensor, int root) {
  const CollectiveScope scope(*this, Waiting::gather, "gather to rank {}", root);
  check_root(*this, "gather", root);
  const Tensor values = on_host("gather", tensor);
  const ArrayHeader header(values);
  std::vector<ArrayHeader> headers(rank() == root ? ranks() : 0);
  TASUKI_MPI(MPI_Gather, &header, header_bytes, MPI_BYTE, headers.data(), header_bytes, MPI_BYTE,
             root, comm().get());
  const auto gathered = make_all(headers);
  MpiRequests requests;
  for (std::size_t other = 0; other < gathered.size(); ++other)
    start_recv(requests, bytes_of(gathered[other]), static_cast<int>(other), tag_of_elements,
               comm().get(), call_bytes());
  start_send(requests, bytes_of(values), root, tag_of_elements, comm().get(), call_bytes());
  requests.wait();
  return delivered(gathered, options().device);
}

std::vector<Tensor> Communicator::allgather(const Tensor& tensor) {
  const CollectiveScope scope(*this, Waiting::allgather, "allgather");
  const Tensor values = on_host("allgather", tensor);
  const ArrayHeader header(values);
  std::vector<ArrayHeader> headers(ranks());
  TASUKI_MPI(MPI_Allgather, &header, header_bytes, MPI_BYTE, headers.data(), header_bytes, MPI_BYTE,
             comm().get());
  const auto gathered = make_all(headers);
  gathered[static_cast<std::size_t>(rank())].copy_from(values);
  for (int other = 0; other < size(); ++other)
    tasuki::bcast(bytes_of(gathered[static_cast<std::size_t>(other)]), other, comm().get(),
                  call_bytes());
  return delivered(gathered, options().device);
}

std::vector<Tensor> Communicator::alltoall(std::span<const Tensor> tensors) {
  check_number("alltoall", tensors.size(), ranks());
  const CollectiveScope scope(*this, Waiting::alltoall, "alltoall");
  const auto values = all_on_host("alltoall", tensors);
  const auto headers = headers_of(values);
  std::vector<ArrayHeader> incoming(ranks());
  TASUKI_MPI(MPI_Alltoall, headers.data(), header_bytes, MPI_BYTE, incoming.data(), header_bytes,
             MPI_BYTE, comm().get());
  const auto received = make_all(incoming);
  MpiRequests requests;
  for (int other = 0; other < size(); ++other)
    start_recv(requests, bytes_of(received[static_cast<std::size_t>(other)]), other,
               tag_of_elements, comm().get(), call_bytes());
  for (int other = 0; other < size(); ++other)
    start_send(requests, bytes_of(values[static_cast<std::size_t>(other)]), other, tag_of_elements,
               comm().get(), call_bytes());
  requests.wait();
  return delivered(received, options().device);
}

Tensor Communicator::scatter(std::span<const Tensor> tensors, int root) {
  const CollectiveScope scope(*this, Waiting::scatter, "scatter from rank {}", root);
  check_root(*this, "scatter", root);
  std::vector<Tensor> values;
  if (rank() == root) {
    check_number("scatter", tensors.size(), ranks());
    values = all_on_host("scatter", tensors);
  }
  const auto headers = headers_of(values);
  ArrayHeader header;
  TASUKI_MPI(MPI_Scatter, headers.data(), header_bytes, MPI_BYTE, &header, header_bytes, MPI_BYTE,
             root, comm().get());
  const Tensor received = header.make();
  MpiRequests requests;
  start_recv(requests, bytes_of(received), root, tag_of_elements, comm().get(), call_bytes());
  for (std::size_t other = 0; other < values.size(); ++other)
    start_send(requests, bytes_of(values[other]), static_cast<int>(other), tag_of_elements,
               comm().get(), call_bytes());
  requests.wait();
  return received.to(options().device);
}

Tensor Communicator::recv(int source, int tag) {
  auto tensors = recv_many(source, tag);
  if (tensors.size() != 1)
    fail(ErrorKind::usage, "recv: expected one tensor from rank {}, found {}; use recv_many",
         source, tensors.size());
  return std::move(tensors.front());
}

Tensor Communicator::scatter(const Tensor& tensor, int root) {
  check_root(*this, "scatter", root);
  std::vector<Tensor> parts;
  if (rank() == root) {
    const Tensor values = on_host("scatter", tensor);
    if (values.shape().rank() == 0)
      fail(ErrorKind::usage, "scatter divides axis 0, which a scalar does not have");
    for (int other = 0; other < size(); ++other) {
      const Range part = part_of(values.shape()[0], size(), other);
      parts.push_back(values.slice(part.begin, part.end));
    }
  }
  return scatter(parts, root);
}

}  // namespace tasuki
