// Writers: the ranks that write a checkpoint together.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"

namespace tasuki {

// One writer of several. Usually there is only one: rank 0, which has all of the state.
class Writers {
 public:
  // Gives every writer the texts of all, in their order. All writers call it the same number of
  // times.
  using Exchange = std::function<std::vector<std::string>(const std::string& own)>;

  // A writer alone, which exchanges nothing.
  Writers() = default;
  Writers(int index, int count, Exchange exchange);
  // All ranks of a communicator, which must outlive this object.
  explicit Writers(Communicator& communicator);

  int index() const { return index_; }
  int count() const { return count_; }

  // Calls `work` on every writer, and returns all results. If some throw, all throw the error of
  // the first one, with the name of its host and of the same kind; exceptions of std::filesystem
  // and errors that the system caused become errors of kind cannot_write.
  std::vector<std::string> on_all(const std::function<std::string()>& work) const;

  // For each writer the first one that sees the same folder: {0, 0, 2, 2} for two disks. Each makes
  // a file there, looks for the files of the others, and removes its own. The folder must exist on
  // each disk.
  std::vector<int> first_on_disk(const std::filesystem::path& folder) const;

 private:
  int index_ = 0, count_ = 1;
  Exchange exchange_;
};

// 32 random hexadecimal digits.
std::string random_id();

}  // namespace tasuki
