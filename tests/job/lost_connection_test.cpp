// Which TCP connections are taken for unanswered, by what Linux tells of them.

#include "job/lost_connection.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

namespace tasuki {
namespace {

const std::string heading =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode                                                     \n";
// 10.231.7.2 to 10.231.7.1, with so many retransmissions (two hexadecimal digits).
std::string to_node1(const std::string& retransmissions, const std::string& inode = "41717") {
  return "   3: 0207E70A:C8F2 0107E70A:8E4B 01 00000164:00000000 01:0000032C 000000" +
         retransmissions + "     0        0 " + inode +
         " 3 00000000f2b7d1a5 1632 4 31 10 -1                 \n";
}

std::string peers(const std::string& text) {
  std::string all;
  for (const UnansweredConnection& each : parse_unanswered(text))
    all += each.peer + " " + std::to_string(each.inode) + "\n";
  return all;
}

TEST(UnansweredConnections, AreFoundByRetransmissions) {
  EXPECT_EQ(peers(heading + to_node1("06")), "10.231.7.1 41717\n");
  EXPECT_EQ(peers(heading + to_node1("02")), "");
  EXPECT_EQ(peers(to_node1("00") + to_node1("07", "5") + to_node1("02") + to_node1("08", "6")),
            "10.231.7.1 5\n10.231.7.1 6\n");
  const auto found = parse_unanswered(to_node1("0F"));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].attempts, 15);
  EXPECT_EQ(found[0].seconds, 0);
}

// Where this host's own network is switched off.
TEST(UnansweredConnections, AreFoundByKeepaliveProbes) {
  const auto line = [](const std::string& probes) {
    return "   5: 0207E70A:E30E 0107E70A:A75B 01 0000008D:00000000 04:0000087D 00000000     0      "
           "  " +
           probes + " 643930 3 00000000b2b4db30 20 4 29 16 -1                 \n";
  };
  EXPECT_EQ(peers(line("7")), "10.231.7.1 643930\n");
  EXPECT_EQ(peers(line("2")), "");
  EXPECT_EQ(peers(line("x")), "");
}

TEST(UnansweredConnections, IncludeIpv6) {
  const std::string rest = " 01 00000164:00000000 01:0000032C 00000006     0        0 9 3 0000\n";
  // fe80::1:2 to fe80::1; 10.231.7.2 to 10.231.7.1 in a socket of IPv6.
  EXPECT_EQ(peers("   0: 000080FE000000000000000002000100:C8F2 "
                  "000080FE000000000000000001000000:8E4B" +
                  rest),
            "fe80::1 9\n");
  EXPECT_EQ(peers("   1: 0000000000000000FFFF00000207E70A:C8F2 "
                  "0000000000000000FFFF00000107E70A:8E4B" +
                  rest),
            "10.231.7.1 9\n");
  // ::1 and 127.0.0.1 of this machine.
  EXPECT_EQ(peers("   2: 00000000000000000000000001000000:C8F2 "
                  "00000000000000000000000001000000:8E4B" +
                  rest),
            "");
  EXPECT_EQ(peers("   3: 0000000000000000FFFF00000100007F:C8F2 "
                  "0000000000000000FFFF00000100007F:8E4B" +
                  rest),
            "");
}

TEST(UnansweredConnections, ExcludeThisHost) {
  const std::string rest = " 01 00000164:00000000 01:0000032C 00000006     0        0 9 3 0000\n";
  EXPECT_EQ(peers("   0: 0100007F:C8F2 0100007F:8E4B" + rest), "");
  EXPECT_EQ(peers("   0: 0107E70A:C8F2 0200007F:8E4B" + rest), "");
  // This machine's own address.
  EXPECT_EQ(peers("   0: 0107E70A:C8F2 0107E70A:8E4B" + rest), "");
}

TEST(UnansweredConnections, ExcludeUnconnectedSockets) {
  std::string connecting = to_node1("06");
  connecting.replace(connecting.find(" 01 "), 4, " 02 ");
  EXPECT_EQ(peers(connecting), "");
}

TEST(UnansweredConnections, IgnoreOtherText) {
  const std::string line = to_node1("06");
  for (std::size_t size = 0; size < line.find("41717"); ++size)
    EXPECT_EQ(peers(line.substr(0, size)), "") << size;
  EXPECT_EQ(peers("\n\n" + heading + "   \n" + line), "10.231.7.1 41717\n");
  for (const std::string damaged : {"0107E70A", "00000006", "41717"}) {
    std::string text = line;
    text.replace(text.find(damaged), 1, "x");
    EXPECT_EQ(peers(text), "") << text;
  }
  EXPECT_EQ(peers("   0: 07E70A:C8F2 0107E70A00:8E4B 01 0:0 01:0 00000006 0 0 9\n"), "");
}

// After so many seconds for each look, of those that were seen in the last one.
std::vector<double> times(const std::vector<std::string>& looks, double seconds = 1) {
  std::vector<UnansweredConnection> seen;
  for (const std::string& text : looks) seen = add_time(parse_unanswered(text), seen, seconds);
  std::vector<double> all;
  all.reserve(seen.size());
  for (const UnansweredConnection& each : seen) all.push_back(each.seconds);
  return all;
}

TEST(UnansweredTime, GrowsUntilAnAnswerArrives) {
  EXPECT_EQ(times({to_node1("03")}), std::vector<double>{0});
  EXPECT_EQ(times({to_node1("03"), to_node1("03"), to_node1("04")}), std::vector<double>{2});
  EXPECT_EQ(times({to_node1("03"), to_node1("06")}, 1.5), std::vector<double>{1.5});
  // Acknowledged in between.
  EXPECT_EQ(times({to_node1("03"), to_node1("00"), to_node1("03")}), std::vector<double>{0});
  EXPECT_EQ(times({to_node1("04"), to_node1("04"), to_node1("03")}), std::vector<double>{0});
  EXPECT_EQ(times({to_node1("04"), ""}), std::vector<double>{});
}

TEST(UnansweredTime, IsTrackedPerSocket) {
  EXPECT_EQ(times({to_node1("03", "5"), to_node1("03", "6")}), std::vector<double>{0});
  EXPECT_EQ(times({to_node1("03", "5"), to_node1("04", "6") + to_node1("04", "5")}),
            (std::vector<double>{0, 1}));
}

// The present connections of this machine can be read without an error.
TEST(ConnectionWatch, FindsNoLostHostInAHealthyProcess) {
  ConnectionWatch watch({getpid(), 0});
  for (int look = 0; look < 3; ++look) EXPECT_EQ(watch.find_lost(1, 1), std::nullopt);
}

}  // namespace
}  // namespace tasuki
