// Exchanges JSON values ("objects") between ranks; they travel as CBOR.
//
// The rules for all operations in communicator.hpp apply: all functions except send_object() and
// recv_object() are collective.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "communicator/bytes.hpp"

namespace tasuki {

// Converts an object to CBOR and back. CBOR keeps what JSON text loses: strings of any bytes, NaN,
// infinities, and all bits of numbers.
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
// Returns the root's objects[rank]. The root passes one object per rank; others may pass none.
nlohmann::json scatter_object(Communicator& communicator,
                              const std::vector<nlohmann::json>& objects, int root = 0);

}  // namespace tasuki
