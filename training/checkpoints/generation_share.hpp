// GenerationShare: what one rank writes of a generation (generation_writer.hpp).
#pragma once

#include <string>
#include <vector>

#include "training/snapshots/npz.hpp"

namespace tasuki {

// Arrays are only read while it is written, and must not change meanwhile.
struct GenerationShare {
  std::string part;              // of the model, as in Manifest::File
  std::vector<NpzEntry> state;   // state<part>.npz; empty if another writer has it
  std::vector<NpzPiece> pieces;  // optimizer.<writer>.npz; only where all writers see one folder
};

// Gives the arrays memory of their own on the host, so that training may change its own, except
// those that nothing else refers to because they were gathered from other ranks or packed. Host
// memory is pooled, so each save takes the blocks of the one before.
void detach(GenerationShare& share);

}  // namespace tasuki
