// Objects between ranks: JSON values, which travel as CBOR.
//
// What communicator.hpp says of all operations holds for these, too: all but send_object() and
// recv_object() are collective.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "communicator/bytes.hpp"

namespace tasuki {

// An object as it travels, and back. CBOR keeps what JSON text loses: texts of any bytes, NaN,
// infinities, all bits of numbers.
Bytes object_to_bytes(const nlohmann::json& object);
nlohmann::json bytes_to_object(std::span<const std::byte> bytes);

// May block until the receiver has called recv_object(); see Communicator::send().
void send_object(Communicator& communicator, const nlohmann::json& object, int dest, int tag = 0);
nlohmann::json recv_object(Communicator& communicator, int source, int tag = any_tag,
                           MessageInfo* info = nullptr);

// Returns the root's object; other ranks' objects are not read.
nlohmann::json bcast_object(Communicator& communicator, const nlohmann::json& object, int root = 0);
// Element i of the result is from rank i; empty on ranks other than the root.
std::vector<nlohmann::json> gather_object(Communicator& communicator, const nlohmann::json& object,
                                          int root = 0);
std::vector<nlohmann::json> allgather_object(Communicator& communicator,
                                             const nlohmann::json& object);
// Returns objects[rank] of the root, which passes one for each rank; others may pass none.
nlohmann::json scatter_object(Communicator& communicator,
                              const std::vector<nlohmann::json>& objects, int root = 0);

}  // namespace tasuki
