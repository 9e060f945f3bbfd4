#include "temporary_folder.hpp"

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <system_error>

#include "communicator/communicator.hpp"
#include "communicator/text_bytes.hpp"

namespace tasuki::testing {

TemporaryFolder::TemporaryFolder(Communicator* communicator)
    : communicator_(communicator), is_owner_(communicator == nullptr || communicator->rank() == 0) {
  std::string name = (std::filesystem::temp_directory_path() / "tasuki-test-XXXXXX").string();
  if (is_owner_ && ::mkdtemp(name.data()) == nullptr)
    throw std::runtime_error("no temporary folder");
  if (communicator) {
    const Bytes bytes = bcast_bytes(*communicator, text_to_bytes(name));
    name = bytes_to_text(bytes);
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  // A rank that an exception ends may be alone here.
  if (communicator_ && std::uncaught_exceptions() == 0) communicator_->barrier();
  std::error_code ignored;
  if (is_owner_) std::filesystem::remove_all(path_, ignored);
}

}  // namespace tasuki::testing
