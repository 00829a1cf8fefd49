// A peer is another program: it may be missing, end early or say too much.
#include "bench/peer_process.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace perigee {
namespace {

TEST(PeerProcess, AnswersLineByLine) {
  PeerProcess peer({"sed", "-u", "s/^/heard /"});
  peer.send("one\ntwo\n");
  EXPECT_EQ(peer.read_line(), "heard one");
  EXPECT_EQ(peer.read_line(), "heard two");
  peer.send("three\n");
  EXPECT_EQ(peer.read_line(), "heard three");
}

TEST(PeerProcess, TakesMoreThanASocketHolds) {
  PeerProcess peer({"sh", "-c", "head -c 5000000 | wc -c"});
  peer.send(std::string(5'000'000, 'x'));
  EXPECT_EQ(std::stoul(peer.read_line()), 5'000'000u);
}

TEST(PeerProcess, NamesAProgramThatDoesNotExist) {
  EXPECT_ERROR(PeerProcess({"/no/such/program"}), ErrorCode::kNotFound, "/no/such/program");
}

TEST(PeerProcess, SaysThatAProgramEndedWithoutAnAnswer) {
  PeerProcess peer({"true"});
  EXPECT_ERROR((void)peer.read_line(), ErrorCode::kIo, "true ended before it answered");
}

TEST(PeerProcess, SurvivesSendingToAProgramThatHasEnded) {
  PeerProcess peer({"true"});
  EXPECT_ERROR((void)peer.read_line(), ErrorCode::kIo, "ended");
  EXPECT_ERROR(peer.send(std::string(5'000'000, 'x')), ErrorCode::kIo, "ended");
}

TEST(PeerProcess, RefusesAnEndlessLine) {
  PeerProcess peer({"sh", "-c", "while :; do printf xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"});
  EXPECT_ERROR((void)peer.read_line(), ErrorCode::kIo, "a line of more than");
}

TEST(PeerProcess, EndsAProgramThatWouldGoOn) {
  { PeerProcess peer({"sleep", "600"}); }  // returns at once
}

}  // namespace
}  // namespace perigee
