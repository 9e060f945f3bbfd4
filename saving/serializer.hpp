// Serializer: a tree of named values that is being saved or loaded. An object describes its state
// once, in one function `serialize(const Serializer&)`, which serves both directions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "communicator/bytes.hpp"
#include "communicator/communicator.hpp"
#include "saving/npz_entry.hpp"

namespace tasuki {

class ArraySource;

// Collective: every rank visits the same values in the same order. Saving keeps rank 0's values;
// loading gives rank 0's values to every rank. If a value is missing, or has another type or
// shape, all ranks throw the same error, which names the entry.
class Serializer {
 public:
  // Saves into `entries` (filled on rank 0 only; tensors are shared, not copied). With `pieces`,
  // which all ranks give or none, arrays that are divided between ranks stay divided: `pieces` gets
  // this rank's pieces, and `entries` lacks these arrays.
  static Serializer saver(std::vector<NpzEntry>& entries, Communicator* communicator,
                          std::vector<NpzPiece>* pieces = nullptr);
  // Loads from `source`, which is null on all ranks but 0.
  static Serializer loader(const ArraySource* source, Communicator* communicator);

  bool is_loading() const { return entries_ == nullptr; }
  Communicator* communicator() const { return communicator_; }
  // The serializer of the tree below `name`.
  Serializer operator[](const std::string& name) const;
  // Loading: whether there is such a value, or any value below it.
  bool contains(const std::string& name) const;
  // Loading: the shape of an array; nothing if there is none of this name.
  std::optional<Shape> find_shape(const std::string& name) const;

  void operator()(const std::string& name, double& value) const;
  void operator()(const std::string& name, std::int64_t& value) const;
  void operator()(const std::string& name, std::string& value) const;
  // Elements of a tensor, loaded in place.
  void operator()(const std::string& name, const Tensor& value) const;

  // Saving: whether arrays that are divided between ranks are saved by save_piece(); if not, rank 0
  // has to gather them.
  bool takes_pieces() const { return pieces_ != nullptr; }
  // Saves this rank's piece of the array `name`. Not collective; each element of the array must be
  // in one rank's piece.
  void save_piece(const std::string& name, const Shape& whole, std::int64_t begin,
                  const Tensor& values) const;

  // A value that differs between ranks: saving stores one for each rank, loading returns all of
  // them (as many as there were ranks) on every rank.
  std::vector<Bytes> of_every_rank(const std::string& name, std::span<const std::byte> own) const;
  // Loading: the value of this rank alone; empty if there were more or fewer ranks.
  Bytes of_own_rank(const std::string& name) const;

 private:
  Serializer(std::vector<NpzEntry>* entries, const ArraySource* source, Communicator* communicator,
             std::string prefix);
  bool is_root() const { return communicator_ == nullptr || communicator_->rank() == 0; }
  void save(const std::string& name, NpzValue value) const;
  NpzValue load(const std::string& name) const;
  Bytes load_bytes(const std::string& name) const;
  Tensor load_array(const std::string& name, const Shape& shape, DType dtype) const;

  std::vector<NpzEntry>* entries_;
  const ArraySource* source_;
  Communicator* communicator_;
  std::string prefix_;
  std::vector<NpzPiece>* pieces_ = nullptr;
};

// Serializer's operator() with a check, for numbers that a run computes with: a file from elsewhere
// may have any numbers. If a loaded number is not from 0 to `most`, or not finite, all ranks throw
// an error of kind data with that number.
void serialize_count(const Serializer& serializer, const std::string& name, std::int64_t& value,
                     std::int64_t most = std::int64_t{1} << 62);
void serialize_finite(const Serializer& serializer, const std::string& name, double& value);
// Finite and not negative.
void serialize_seconds(const Serializer& serializer, const std::string& name, double& value);

}  // namespace tasuki
