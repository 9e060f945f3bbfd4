// Iterators that give all ranks the same batches, for models that are spread over ranks.
#pragma once

#include <memory>

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/dataset/iterators/iterator.hpp"
#include "tasuki/dataset/iterators/share_iterator.hpp"

namespace tasuki {

// Broadcasts each batch of the master's iterator to all ranks; the other ranks' iterators (null
// will do) are ignored. Everything but state() is collective, the creation included; restore() goes
// to the master's state. What the master's iterator throws, its end included, is thrown on all
// ranks. The communicator must outlive the iterator.
std::unique_ptr<Iterator> create_multi_node_iterator(std::unique_ptr<Iterator> iterator,
                                                     Communicator& communicator,
                                                     int rank_master = 0);

// For ranks that each have the same whole data set: broadcasts rank 0's seed, after which all ranks
// draw the same order and nothing is sent any more. Collective.
std::unique_ptr<Iterator> create_synchronized_iterator(std::unique_ptr<ShareIterator> iterator,
                                                       Communicator& communicator);

}  // namespace tasuki
