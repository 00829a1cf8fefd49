#include "serve/http_exchange.h"

#include <gtest/gtest.h>

namespace perigee {
namespace {

HttpResponse with_body(const std::string& body) {
  HttpResponse response;
  response.body = body;
  return response;
}

TEST(QueuedExchange, HandsOverOneWholeAnswer) {
  int woken = 0;
  QueuedExchange exchange([&] { ++woken; }, 100);
  EXPECT_TRUE(exchange.take().empty());
  exchange.respond(with_body("first"));
  exchange.respond(with_body("second"));
  const QueuedExchange::Output output = exchange.take();
  ASSERT_TRUE(output.head.has_value());
  EXPECT_EQ(output.head->body, "first");
  EXPECT_FALSE(output.streaming);
  EXPECT_TRUE(output.ended);
  EXPECT_EQ(woken, 1);
}

TEST(QueuedExchange, JoinsWhatWaits) {
  QueuedExchange exchange([] {}, 100);
  exchange.start_stream({}, "beat");
  EXPECT_TRUE(exchange.write("a"));
  EXPECT_TRUE(exchange.write("b"));
  QueuedExchange::Output output = exchange.take();
  EXPECT_TRUE(output.head.has_value());
  EXPECT_EQ(output.text, "ab");
  EXPECT_FALSE(output.ended);
  EXPECT_TRUE(exchange.write("c"));
  exchange.finish();
  output = exchange.take();
  EXPECT_FALSE(output.head.has_value());
  EXPECT_EQ(output.text, "c");
  EXPECT_TRUE(output.ended);
  EXPECT_TRUE(output.streaming);
  exchange.note_silence();
  EXPECT_TRUE(exchange.take().empty()) << "behind the end there is no heartbeat";
}

StreamPromise promise() {
  return {.head = with_body("early"), .heartbeat = "beat", .before_error = "<", .behind_error = ">"};
}

TEST(QueuedExchange, HasAHeartbeatForASilentStream) {
  QueuedExchange exchange([] {}, 100);
  EXPECT_FALSE(exchange.wants_heartbeats());
  exchange.note_silence();
  EXPECT_TRUE(exchange.take().empty()) << "whether it will be a stream is not known yet";
  exchange.start_stream({}, "beat");
  exchange.take();
  EXPECT_TRUE(exchange.wants_heartbeats());
  exchange.note_silence();
  EXPECT_EQ(exchange.take().text, "beat");
  exchange.write("a");
  exchange.note_silence();
  EXPECT_EQ(exchange.take().text, "a");
}

TEST(QueuedExchange, BeginsAPromisedStreamWhenItIsSilentForTooLong) {
  QueuedExchange exchange([] {}, 100);
  exchange.promise_stream(promise());
  EXPECT_TRUE(exchange.wants_heartbeats());
  exchange.note_silence();
  QueuedExchange::Output output = exchange.take();
  EXPECT_EQ(output.head->body, "early");
  EXPECT_TRUE(output.streaming);
  EXPECT_EQ(output.text, "beat");
  EXPECT_FALSE(exchange.write("too soon"));
  exchange.start_stream(with_body("late"), "other");
  EXPECT_TRUE(exchange.write("word"));
  output = exchange.take();
  EXPECT_FALSE(output.head.has_value());
  EXPECT_EQ(output.text, "word");
  exchange.note_silence();
  EXPECT_EQ(exchange.take().text, "other");
}

TEST(QueuedExchange, AnErrorOfAStreamThatBeganEarlyIsItsLastEvent) {
  QueuedExchange exchange([] {}, 100);
  exchange.promise_stream(promise());
  exchange.note_silence();
  exchange.take();
  exchange.respond(with_body("sorry"));
  const QueuedExchange::Output output = exchange.take();
  EXPECT_FALSE(output.head.has_value());
  EXPECT_EQ(output.text, "<sorry>");
  EXPECT_TRUE(output.ended);
}

TEST(QueuedExchange, APromiseDoesNotKeepFromAnsweringAtOnce) {
  QueuedExchange exchange([] {}, 100);
  exchange.promise_stream(promise());
  exchange.respond(with_body("sorry"));
  const QueuedExchange::Output output = exchange.take();
  EXPECT_EQ(output.head->body, "sorry");
  EXPECT_FALSE(output.streaming);
}

TEST(QueuedExchange, GivesUpAClientThatDoesNotRead) {
  bool gone = false;
  QueuedExchange exchange([] {}, 10);
  exchange.on_gone([&] { gone = true; });
  exchange.start_stream({}, "");
  EXPECT_TRUE(exchange.write("0123456789"));
  EXPECT_FALSE(exchange.write("x"));
  EXPECT_TRUE(exchange.lost());
  exchange.close();
  EXPECT_TRUE(gone);
}

TEST(QueuedExchange, TellsThatTheClientHasLeft) {
  int gone = 0;
  QueuedExchange exchange([] {}, 10);
  exchange.on_gone([&] { ++gone; });
  exchange.close();
  exchange.close();
  EXPECT_EQ(gone, 1);
  exchange.on_gone([&] { gone += 10; });  // registered too late, so told at once
  EXPECT_EQ(gone, 11);
  exchange.respond(with_body("x"));
  EXPECT_TRUE(exchange.take().empty());
}

TEST(QueuedExchange, TellsNothingAfterTheEnd) {
  bool gone = false;
  QueuedExchange exchange([] {}, 10);
  exchange.on_gone([&] { gone = true; });
  exchange.respond({});
  exchange.close();
  EXPECT_FALSE(gone);
  EXPECT_TRUE(exchange.lost());  // whoever waits for its output must not wait on
}

TEST(QueuedExchange, WakesNobodyAfterItWasClosed) {
  int woken = 0;
  QueuedExchange exchange([&] { ++woken; }, 10);
  exchange.start_stream({}, "");
  exchange.close();
  exchange.write("x");
  exchange.finish();
  EXPECT_EQ(woken, 1);
}

}  // namespace
}  // namespace perigee
