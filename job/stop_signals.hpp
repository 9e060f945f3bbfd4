// Signals that ask a job to stop.
#pragma once

namespace tasuki {

// Makes SIGUSR1, and without a launcher also SIGINT and SIGTERM, ask a running training to save and
// stop (core/stop_request.hpp). If no training runs, and on the second SIGINT or SIGTERM, the
// process ends as by default, after its last words. SIGUSR1 after a training is ignored, so that a
// repeated signal does not end a process that has saved. Does nothing for signals that the program
// handles or ignores already.
void listen_for_stops(bool was_launched);

}  // namespace tasuki
