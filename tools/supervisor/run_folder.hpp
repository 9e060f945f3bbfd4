// The output folder that a program has taken, seen from outside.
//
// A new run may take another folder than --out names (training/output_folder.hpp). It finds a mark
// in its environment and writes it into about.json, by which its folder is recognised.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "saving/saved_states.hpp"

namespace tasuki::supervisor {

// What a run in the folder would continue from, if it is intact: the state that was saved last.
// Nothing if there is none.
std::optional<SavedState> last_saved(const std::filesystem::path& folder);

class RunFolder {
 public:
  // `out`: the folder that the program is asked to take. `resumed_from`: the snapshot or folder
  // that it continues from, whose folder it may take.
  RunFolder(std::filesystem::path out, std::optional<std::filesystem::path> resumed_from,
            std::string mark);

  // Looks for the folder with the mark, the latest if there are several (a folder that was removed
  // is made anew, perhaps with another name). Nothing: not taken yet, or on a disk that this
  // machine does not see.
  const std::optional<std::filesystem::path>& find();

  // When a start of the program last took the folder, by the clock of its disk; nothing: not yet.
  std::optional<std::filesystem::file_time_type> taken_at();

 private:
  std::vector<std::filesystem::path> candidates() const;

  std::filesystem::path out_;
  std::optional<std::filesystem::path> resumed_from_;
  std::string mark_;
  std::optional<std::filesystem::path> found_;
};

}  // namespace tasuki::supervisor
