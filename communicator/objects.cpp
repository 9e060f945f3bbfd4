#include "communicator/objects.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "communicator/communicator.hpp"
#include "communicator/mpi/message.hpp"

namespace tasuki {
namespace {

std::vector<nlohmann::json> decode_all(const std::vector<Bytes>& parts) {
  std::vector<nlohmann::json> objects;
  objects.reserve(parts.size());
  for (const Bytes& part : parts) objects.push_back(bytes_to_object(part));
  return objects;
}

}  // namespace

Bytes object_to_bytes(const nlohmann::json& object) {
  const std::vector<std::uint8_t> cbor = nlohmann::json::to_cbor(object);
  const auto bytes = std::as_bytes(std::span(cbor));
  return {bytes.begin(), bytes.end()};
}

nlohmann::json bytes_to_object(std::span<const std::byte> bytes) {
  const auto* const cbor = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return nlohmann::json::from_cbor(cbor, cbor + bytes.size());
}

void send_object(Communicator& communicator, const nlohmann::json& object, int dest, int tag) {
  send_message(communicator, "send_object", MessageKind::objects, object_to_bytes(object), dest,
               tag);
}

nlohmann::json recv_object(Communicator& communicator, int source, int tag, MessageInfo* info) {
  return bytes_to_object(
      recv_message(communicator, "recv_object", MessageKind::objects, source, tag, info));
}

nlohmann::json bcast_object(Communicator& communicator, const nlohmann::json& object, int root) {
  return bytes_to_object(bcast_bytes(
      communicator, communicator.rank() == root ? object_to_bytes(object) : Bytes(), root));
}

std::vector<nlohmann::json> gather_object(Communicator& communicator, const nlohmann::json& object,
                                          int root) {
  return decode_all(gather_bytes(communicator, object_to_bytes(object), root));
}

std::vector<nlohmann::json> allgather_object(Communicator& communicator,
                                             const nlohmann::json& object) {
  return decode_all(allgather_bytes(communicator, object_to_bytes(object)));
}

nlohmann::json scatter_object(Communicator& communicator,
                              const std::vector<nlohmann::json>& objects, int root) {
  std::vector<Bytes> parts;
  if (communicator.rank() == root)
    for (const nlohmann::json& object : objects) parts.push_back(object_to_bytes(object));
  return bytes_to_object(scatter_bytes(communicator, parts, root));
}

}  // namespace tasuki
