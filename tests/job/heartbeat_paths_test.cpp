// By which addresses two hosts talk.

#include "job/heartbeat_paths.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace tasuki {
namespace {

HostAddress at(const std::string& address, int bits) {
  return {inet_addr(address.c_str()), htonl(~0U << (32 - bits))};
}

HostAddresses host(const std::vector<HostAddress>& list) {
  HostAddresses all{};
  std::size_t count = 0;
  for (const HostAddress& each : list) all.at(count++) = each;
  all.at(count) = at("127.0.0.1", 8);
  return all;
}

std::string text(std::uint32_t address) {
  return inet_ntoa({address});
}

// Either side's choice is the other's.
std::string paths(const HostAddresses& from, const HostAddresses& to) {
  std::set<std::string> there, back;
  for (const HeartbeatPath& path : choose_paths(from, to))
    there.insert(text(path.from) + " " + text(path.to));
  for (const HeartbeatPath& path : choose_paths(to, from))
    back.insert(text(path.to) + " " + text(path.from));
  EXPECT_EQ(there, back);
  return there.empty() ? "none" : fmt::format("{}", fmt::join(there, "; "));
}

const HostAddress docker = at("172.17.0.1", 16);

TEST(HeartbeatPath, UsesTheSharedSubnet) {
  EXPECT_EQ(paths(host({at("10.1.0.1", 24), at("192.168.7.1", 24)}),
                  host({at("10.2.0.2", 24), at("192.168.7.2", 24)})),
            "192.168.7.1 192.168.7.2");
}

TEST(HeartbeatPath, UsesEverySharedSubnet) {
  EXPECT_EQ(paths(host({at("10.1.0.1", 24), at("192.168.7.1", 24), at("10.3.0.1", 24)}),
                  host({at("192.168.7.2", 24), at("10.1.0.2", 24), at("10.4.0.1", 24)})),
            "10.1.0.1 10.1.0.2; 192.168.7.1 192.168.7.2");
}

TEST(HeartbeatPath, IsSymmetricWithinAMachine) {
  EXPECT_EQ(
      paths(host({at("127.0.0.5", 8)}), HostAddresses{at("127.0.0.1", 8), at("127.0.0.5", 8)}),
      "127.0.0.1 127.0.0.1");
}

TEST(HeartbeatPath, SkipsAddressesThatBothHostsHave) {
  EXPECT_EQ(paths(host({docker, at("10.1.0.1", 24)}), host({docker, at("10.1.0.2", 24)})),
            "10.1.0.1 10.1.0.2");
  EXPECT_EQ(paths(host({docker, at("10.1.0.1", 24)}), host({docker, at("10.2.0.2", 24)})),
            "10.1.0.1 10.2.0.2");
}

TEST(HeartbeatPath, PrefersPrivateAddresses) {
  EXPECT_EQ(paths(host({at("8.8.8.1", 24), at("10.1.0.1", 24)}),
                  host({at("8.8.9.2", 24), at("10.2.0.2", 24)})),
            "10.1.0.1 10.2.0.2");
  EXPECT_EQ(paths(host({at("8.8.8.1", 24), at("10.1.0.1", 24)}),
                  host({at("8.8.8.2", 24), at("10.9.0.2", 24)})),
            "8.8.8.1 8.8.8.2");
}

TEST(HeartbeatPath, UsesLoopbackWithinAMachine) {
  const auto machine = host({docker, at("10.1.0.1", 24)});
  EXPECT_EQ(paths(machine, machine), "127.0.0.1 127.0.0.1");
  EXPECT_EQ(paths(host({}), host({})), "127.0.0.1 127.0.0.1");
}

TEST(HeartbeatPath, DoesNotExistWithoutAnAddress) {
  EXPECT_EQ(paths(host({docker}), host({docker, at("10.1.0.1", 24)})), "none");
}

TEST(OwnAddresses, ListLoopbackLast) {
  const HostAddresses own = own_addresses();
  std::uint32_t last = 0;
  for (const HostAddress& each : own)
    if (each.address != 0) last = each.address;
  EXPECT_EQ(ntohl(last) >> 24, 127u);
}

}  // namespace
}  // namespace tasuki
