// A folder that goes away with the test.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "communicator/communicator.hpp"
#include "communicator/text_bytes.hpp"

namespace tasuki::testing {

class TemporaryFolder {
 public:
  // With a communicator the folder is rank 0's, and all ranks know it. Construction and destruction
  // are collective then: rank 0 removes the folder when all ranks are done with it.
  explicit TemporaryFolder(Communicator* communicator = nullptr)
      : communicator_(communicator),
        is_owner_(communicator == nullptr || communicator->rank() == 0) {
    std::string name = (std::filesystem::temp_directory_path() / "tasuki-test-XXXXXX").string();
    if (is_owner_ && ::mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("no temporary folder");
    if (communicator) {
      const Bytes bytes = bcast_bytes(*communicator, text_to_bytes(name));
      name = bytes_to_text(bytes);
    }
    path_ = name;
  }
  ~TemporaryFolder() {
    // A rank that an exception ends may be alone here.
    if (communicator_ && std::uncaught_exceptions() == 0) communicator_->barrier();
    std::error_code ignored;
    if (is_owner_) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  Communicator* communicator_;
  bool is_owner_;
  std::filesystem::path path_;
};

}  // namespace tasuki::testing
