// BestCheckpoint: the best value of an observed key so far, and the checkpoint that has it, which
// OUT/best names.
#pragma once

#include <filesystem>
#include <string>

#include "communicator/communicator.hpp"
#include "training/watched_value.hpp"

namespace tasuki {

// Part of the extension Checkpoint and saved in its state, so that a run that goes back knows which
// checkpoint was the best at that time.
class BestCheckpoint {
 public:
  struct Record {
    WatchedValue::Best value{};
    // CheckpointManifest::id; empty: none, or saved by a version that did not keep it.
    std::string id{};
  };

  // Of this key, looked at every epoch. Larger is better if "accuracy" is in it.
  explicit BestCheckpoint(const std::string& key);

  // Whether the value of this iteration is better than all before. Then the caller saves a
  // checkpoint, whose id it gives to set_id(), or sets the former record again. Collective.
  bool look(Trainer& trainer);
  void set_id(std::string id) { id_ = std::move(id); }
  Record record() const { return {value_.best(), id_}; }
  void set_record(Record record);

  // At the start of a run that continues from a checkpoint, or does not: lets OUT/best name the
  // one that the state knows, if it is there and not damaged as far as sizes tell, else removes
  // OUT/best and forgets the value. `all`: the ranks that must agree, or null; `holds_state`:
  // whether this rank writes a state.npz, for itself or for all. Collective.
  void find(const Trainer& trainer, Communicator* all, bool holds_state);

  void serialize(const Serializer& serializer);

 private:
  WatchedValue value_;
  std::string id_;
};

}  // namespace tasuki
