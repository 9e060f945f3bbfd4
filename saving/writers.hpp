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

  // Calls `work` on every writer, and returns the results of all. If it throws on some of them, the
  // exception of the first, with the name of its host, is thrown on all as an error of the same
  // kind; what std::filesystem throws, and an error that the system caused, is of kind
  // cannot_write.
  std::vector<std::string> on_all(const std::function<std::string()>& work) const;

  // For each writer the first one that sees the same folder: {0, 0, 2, 2} for two disks. Each looks
  // for files that the others have just made there and that are removed afterwards. The folder
  // exists, on each disk.
  std::vector<int> first_on_disk(const std::filesystem::path& folder) const;

 private:
  int index_ = 0, count_ = 1;
  Exchange exchange_;
};

// 32 random hexadecimal digits.
std::string random_id();

}  // namespace tasuki
