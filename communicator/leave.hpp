// A rank that leaves a communicator because of an error, and how the others learn of it.
//
// Errors that all ranks meet in one place need none of this: all ranks throw. With run_job, or a
// JobGuard that ends the job after errors (job/job_guard.hpp), these functions do nothing.
#pragma once

#include <string_view>

namespace tasuki {

class Communicator;

// Tells the other ranks that this one takes part in no further operation. Every operation of the
// communicator that needs this rank then throws an error of kind io with this rank, its host and
// `why`: within a fraction of a second where Tasuki sends the messages itself (sums of gradients in
// shared memory or by planned messages, send and receive, arrays), and at its beginning in an
// operation that begins later. A rank that waits inside a collective operation of MPI itself
// (flat and naive with MPI's allreduce, broadcasts, barriers, comparisons) waits on: until its
// process is ended, by whoever watches the program or by a JobGuard's watchdog.
//
// Afterwards the communicator can only be destroyed; MPI's handles for it stay until the process
// ends. Trainer::run() and the steps of an Optimizer call it for errors of this rank alone, and so
// does the destructor of a communicator while an exception unwinds its scope.
void leave(Communicator& communicator, std::string_view why) noexcept;

// leave() with the exception that is being handled, unless all ranks meet it (ErrorScope) or it is
// OutOfMemory, after which searches for the largest batch go on. Call it in a handler. An error
// that a part of the ranks meets (a node, or a communicator that was split off) and that belongs to
// another communicator is announced by the first rank of the part, unless rank 0 of MPI_COMM_WORLD
// or this communicator's first rank is in the part: then call leave().
void leave_after_error(Communicator& communicator) noexcept;

}  // namespace tasuki
