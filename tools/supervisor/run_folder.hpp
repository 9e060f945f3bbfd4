// The output folder that a program uses, seen from outside.
//
// A new run may use another folder than --out names (training/output_folder.hpp). It writes a mark
// from its environment into about.json, which identifies its folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "saving/saved_states.hpp"

namespace tasuki::supervisor {

// The state from which a run in the folder would resume: the one saved last, if it is intact.
// Nothing if there is none.
std::optional<SavedState> last_saved(const std::filesystem::path& folder);

class RunFolder {
 public:
  // `out`: the folder that the program is asked to use. `resumed_from`: the snapshot or folder from
  // which it resumes, whose folder it may use.
  RunFolder(std::filesystem::path out, std::optional<std::filesystem::path> resumed_from,
            std::string mark);

  // Looks for the folder with the mark, the latest if there are several (a removed folder is
  // created again, perhaps under another name). Nothing: not yet created, or on a disk that this
  // machine does not see.
  const std::optional<std::filesystem::path>& find();

  // When a start of the program last took the folder, by its disk's clock; nothing: not yet.
  std::optional<std::filesystem::file_time_type> taken_at();

  // Whether the last start that took the folder has written the run's last file.
  bool has_finished();

 private:
  std::vector<std::filesystem::path> candidates() const;

  std::filesystem::path out_;
  std::optional<std::filesystem::path> resumed_from_;
  std::string mark_;
  std::optional<std::filesystem::path> found_;
};

}  // namespace tasuki::supervisor
