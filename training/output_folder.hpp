// OutputFolder: the folder of a run's results, which one job at a time writes to.
//
// Two jobs in one folder would mix their logs and snapshots. A run therefore locks a file in it
// (.lock; core/file_lock.hpp) while it writes, and looks for old results when it has the lock.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

namespace tasuki {

// What a run does about another run's results.
enum class OldResults {
  leave,  // takes the next free name: DIR-2, DIR-3, ...
  join    // takes the folder: for a run that continues or replaces the results
};

enum class FolderChoice { take, try_next, refuse };
// `in_use`: another job holds the lock.
FolderChoice choose_folder(OldResults old, bool in_use, bool has_results);

// `folder` for number 1, else with "-<number>" appended to its name.
std::filesystem::path numbered_folder(const std::filesystem::path& folder, int number);

// Whether it has a log, hashes, a snapshot, a checkpoint or an about.json of a run.
bool has_results(const std::filesystem::path& folder);

// Removes only these.
void remove_results(const std::filesystem::path& folder);

class OutputFolder {
 public:
  explicit OutputFolder(const std::filesystem::path& path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  // The folder of the results; changes when another folder is taken. Absolute, so that it stays the
  // same folder when the program changes its working folder.
  const std::filesystem::path& path() const { return path_; }
  // path() for messages and other ranks: relative, to the working folder in which this object was
  // made, if its path was given so.
  std::filesystem::path name() const { return name_of(path_); }
  // A file in the folder, by name().
  std::filesystem::path name_of(const std::filesystem::path& file) const;
  // Makes this the folder that rank 0 has taken, from its name().
  void follow(const std::filesystem::path& name) { path_ = base_ / name; }
  // The folder that would be taken now; makes and locks nothing.
  static std::filesystem::path find(const std::filesystem::path& wanted, OldResults old);

  // Whether a job writes to the folder.
  static bool is_in_use(const std::filesystem::path& folder);
  // The process that writes to the folder, or did so last: "pid 4711 on node1".
  static std::string holder(const std::filesystem::path& folder);

  // Makes the folder, locks it and removes what killed runs of this host left unfinished, there and
  // in passed-over folders in which no job is at work. Errors of kind cannot_write: it cannot be
  // made or listed, or another job has it (with `join`; the error names the job). A file system
  // without locks is a warning.
  void take(OldResults old);
  bool is_taken() const { return hold_ != nullptr; }
  void release();

  // Writes a file into the folder that was taken, and again whenever restore() makes one.
  void write(const std::string& name, std::string contents);

  // If the folder, or the lock in it, was removed or moved away since it was taken: makes a new
  // folder with only the files of write(), takes it and warns. The new folder has another name (as
  // with `leave`) if another job has taken the old name meanwhile.
  void restore();

 private:
  struct Hold;

  bool is_relative_;
  std::filesystem::path base_, path_;
  std::unique_ptr<Hold> hold_;
  std::map<std::string, std::string> written_;  // contents by name
};

}  // namespace tasuki
