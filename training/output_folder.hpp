// OutputFolder: the folder of a run's results, which one job at a time writes to.
//
// Two jobs in one folder would mix their logs and snapshots. A run therefore holds a lock on a file
// in it (.lock; core/file_lock.hpp) while it writes, and looks what is there when it has the lock.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "tasuki/core/file_lock.hpp"

namespace tasuki {

// What a run does where another one has left results.
enum class OldResults {
  leave,  // takes the next name that is free: DIR-2, DIR-3, ...
  join    // takes the folder as it is: a run that goes on, or replaces what is there
};

enum class FolderChoice { take, try_next, refuse };
// `in_use`: another job holds the lock.
FolderChoice choose_folder(OldResults old, bool in_use, bool has_results);

// `folder` for number 1, else with "-<number>" appended to its name.
std::filesystem::path numbered_folder(const std::filesystem::path& folder, int number);

// Whether a run has left a log, a snapshot or an about.json there.
bool has_results(const std::filesystem::path& folder);

// Removes just these.
void remove_results(const std::filesystem::path& folder);

class OutputFolder {
 public:
  explicit OutputFolder(std::filesystem::path path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  // Where the results are; changes when another folder is taken.
  const std::filesystem::path& path() const { return path_; }
  // The folder that would be taken now; makes and locks none.
  static std::filesystem::path find(const std::filesystem::path& wanted, OldResults old);

  // Makes the folder, locks it and removes what runs that were killed while they wrote have left,
  // there and in folders that are passed over and that no job is at work in.
  // Errors of kind cannot_write: it cannot be made, or another job has it (with `join`; the error
  // names the job). A file system without locks is a warning.
  void take(OldResults old);
  bool is_taken() const { return hold_ != nullptr; }
  void release();

  // Writes a file into the folder that was taken, and again wherever restore() makes one.
  void write(const std::string& name, std::string contents);

  // When the folder was removed or moved away since it was taken: takes it again, with no more in
  // it than what write() wrote, and says so in a warning. It is another name (as with `leave`) if
  // another job has it meanwhile.
  void restore();

 private:
  struct Hold;

  std::filesystem::path path_;
  std::unique_ptr<Hold> hold_;
  std::map<std::string, std::string> written_;  // contents by name
};

}  // namespace tasuki
