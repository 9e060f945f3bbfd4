// Floods with datagrams that are not heartbeats of the job.
#pragma once

#include <atomic>
#include <thread>

namespace tasuki::testing {

// A thread listens to the heartbeats that this host sends (it takes root for that) and floods those
// who get them, from this host's own address: with junk of all lengths, with copies of the
// heartbeats, and with copies in which one bit is flipped.
class DatagramFlood {
 public:
  DatagramFlood();
  ~DatagramFlood();
  DatagramFlood(const DatagramFlood&) = delete;
  DatagramFlood& operator=(const DatagramFlood&) = delete;

 private:
  void run(int listener);

  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace tasuki::testing
