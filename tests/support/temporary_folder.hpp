// A folder that goes away with the test.
#pragma once

#include <filesystem>
#include <string>

namespace tasuki {

class Communicator;

namespace testing {

class TemporaryFolder {
 public:
  // With a communicator the folder is rank 0's, and all ranks know it. Construction and destruction
  // are collective then: rank 0 removes the folder when all ranks are done with it.
  explicit TemporaryFolder(Communicator* communicator = nullptr);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  Communicator* communicator_;
  bool is_owner_;
  std::filesystem::path path_;
};

}  // namespace testing
}  // namespace tasuki
