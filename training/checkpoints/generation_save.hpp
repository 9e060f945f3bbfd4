// GenerationSave: all that it takes to save a generation (generation.hpp), for a thread to do.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "training/checkpoints/generation_share.hpp"
#include "training/checkpoints/generation_writer.hpp"
#include "training/checkpoints/writers.hpp"

namespace tasuki {

struct GenerationSave {
  // What to save, and how many generations remain.
  GenerationOutline outline{};
  Writers writers{};
  GenerationShare share{};
  int n_retains = 1;
  bool is_best = false;  // the file `best` is to name it

  // What has become of it. Valid when run() has ended.
  std::filesystem::path path{};        // empty: not complete
  std::string failure{};               // of writing files; empty: none
  std::vector<std::string> removed{};  // by make_room(), for want of room
  std::vector<int> first_on_disk{};    // Writers::first_on_disk
  double seconds = 0;                  // that it took

  // Writes the generation, names it, removes old ones, and frees `share`. If a disk is full,
  // make_room() (retention.hpp), and if that removes something, once more from the start. All
  // writers call it; errors are those of GenerationWriter::write().
  void run();

 private:
  void write();
};

}  // namespace tasuki
