// Iterators that give all ranks the same batches, for models that are spread over ranks.
#pragma once

#include <memory>

#include "communicator/communicator.hpp"
#include "dataset/iterators/iterator.hpp"
#include "dataset/iterators/share_iterator.hpp"

namespace tasuki {

// Broadcasts each batch of the master's iterator to all ranks; the other ranks' iterators are
// ignored and may be null. Everything but state() is collective, including construction; restore()
// moves to the master's state. Exceptions of the master's iterator, the one at its end included,
// are thrown on all ranks. The communicator must outlive the iterator.
std::unique_ptr<Iterator> create_multi_node_iterator(std::unique_ptr<Iterator> iterator,
                                                     Communicator& communicator,
                                                     int rank_master = 0);

// For ranks that all have the whole data set: broadcasts rank 0's seed, so that all ranks draw the
// same order without further messages. Collective.
std::unique_ptr<Iterator> create_synchronized_iterator(std::unique_ptr<ShareIterator> iterator,
                                                       Communicator& communicator);

}  // namespace tasuki
