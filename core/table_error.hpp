// TableError: an error whose message has several lines.
#pragma once

#include "core/error.hpp"

namespace tasuki {

// Its lines stay lines when it is printed. In the messages of other errors, line ends can only come
// from the names and values in them, and are replaced.
class TableError : public Error {
 public:
  using Error::Error;
};

}  // namespace tasuki
