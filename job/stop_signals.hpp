// Signals that ask a job to stop.
#pragma once

namespace tasuki {

// From now on SIGUSR1, and in a process without a launcher also SIGINT and SIGTERM, ask a training
// that runs to save and stop (core/stop_request.hpp). While there is none, and the second SIGINT or
// SIGTERM, end the process as they would by default, after its last words; only SIGUSR1 after a
// training is ignored, so that a repeated one does not end a process that has saved. Signals that
// the program handles or ignores already are left alone.
void listen_for_stops(bool was_launched);

}  // namespace tasuki
