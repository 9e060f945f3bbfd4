// Datagrams that are none of the job's heartbeats, by the thousand.
#pragma once

#include <atomic>
#include <thread>

namespace tasuki::testing {

// A thread listens to the heartbeats that this host sends (it takes root for that) and floods those
// who get them, from this host's own address: with junk of all lengths, with the heartbeats
// themselves once more, and with such in which a bit was changed.
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
