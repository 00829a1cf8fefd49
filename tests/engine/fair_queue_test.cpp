#include "engine/fair_queue.h"

#include <gtest/gtest.h>

#include "engine/prompt_budget.h"

namespace perigee {
namespace {

WaitingJob waiting(JobId id, const std::string& client, std::size_t prompt, int priority = 0) {
  WaitingJob made;
  made.id = id;
  made.job.client = client;
  made.job.priority = priority;
  made.job.request.prompt.resize(prompt);
  return made;
}

std::vector<JobId> all_in_order(FairQueue& queue) {
  std::vector<JobId> order;
  while (queue.next()) order.push_back(queue.pop().id);
  return order;
}

TEST(FairQueue, TakesTurnsBetweenClientsByWhatTheyWereServed) {
  FairQueue queue;
  for (JobId id = 1; id <= 4; ++id) queue.push(waiting(id, "a", 10));
  queue.push(waiting(5, "b", 25));
  queue.push(waiting(6, "b", 1));
  EXPECT_EQ(all_in_order(queue),
            (std::vector<JobId>{1, 5, 2, 3, 6, 4}));  // served: a 10, b 25, a 20, a 30, b 26
}

TEST(FairQueue, TheLowestPriorityComesFirst) {
  FairQueue queue;
  queue.push(waiting(1, "a", 1, 0));
  queue.push(waiting(2, "a", 1, -5));
  queue.push(waiting(3, "b", 1, 1));
  queue.push(waiting(4, "b", 1, -5));
  EXPECT_EQ(all_in_order(queue), (std::vector<JobId>{2, 4, 1, 3}));
}

TEST(FairQueue, GeneratedTokensCountAsService) {
  FairQueue queue;
  queue.push(waiting(1, "a", 1));
  queue.push(waiting(2, "b", 5));
  queue.pop();
  queue.charge("a", 100);
  queue.pop();
  queue.push(waiting(3, "a", 1));
  queue.push(waiting(4, "b", 1));
  EXPECT_EQ(all_in_order(queue), (std::vector<JobId>{4, 3}));
}

TEST(FairQueue, WhatWasKnownAlreadyIsNotCharged) {
  FairQueue queue;
  queue.push(waiting(1, "long talk", 1000));
  queue.push(waiting(2, "newcomer", 20));
  queue.pop();
  queue.give_back("long talk", 990);
  queue.pop();
  queue.push(waiting(3, "newcomer", 1));
  queue.push(waiting(4, "long talk", 1));
  EXPECT_EQ(all_in_order(queue), (std::vector<JobId>{4, 3}));
}

TEST(FairQueue, NobodySavesUpByStayingAway) {
  FairQueue queue;
  queue.push(waiting(1, "busy", 1000));
  queue.pop();
  queue.push(waiting(2, "late", 1));  // begins at the level of the one that is there, not at nothing
  queue.push(waiting(3, "late", 1));
  queue.push(waiting(4, "busy", 1));
  EXPECT_EQ(all_in_order(queue), (std::vector<JobId>{2, 4, 3}));
}

TEST(FairQueue, AClientThatLeavesAndComesBackDoesNotGainByIt) {
  FairQueue queue;
  queue.push(waiting(1, "a", 500));
  queue.push(waiting(2, "b", 1));
  queue.pop();
  queue.pop();
  queue.leave("a");  // its job is over; b is still there with less
  queue.push(waiting(3, "a", 1));
  queue.push(waiting(4, "b", 1));
  EXPECT_EQ(all_in_order(queue), (std::vector<JobId>{4, 3}));
}

TEST(FairQueue, TakesOutWhatIsNamed) {
  FairQueue queue;
  for (JobId id = 1; id <= 5; ++id) queue.push(waiting(id, "a", 1));
  const std::vector<WaitingJob> taken = queue.take({2, 5, 77});
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].id, 2u);
  EXPECT_EQ(taken[1].id, 5u);
  EXPECT_EQ(all_in_order(queue), (std::vector<JobId>{1, 3, 4}));
}

using Shares = std::vector<std::size_t>;

TEST(PromptBudget, GivesEverybodyWhatTheyNeedIfItSuffices) {
  EXPECT_EQ(share_prompt_budget(std::vector<PromptNeed>{{"a", 0, 5}, {"b", 0, 7}}, 12), (Shares{5, 7}));
  EXPECT_EQ(share_prompt_budget({}, 12), Shares{});
}

TEST(PromptBudget, SharesEquallyBetweenClientsAndPassesOnWhatIsLeft) {
  EXPECT_EQ(share_prompt_budget(std::vector<PromptNeed>{{"a", 0, 100}, {"b", 0, 100}}, 12), (Shares{6, 6}));
  EXPECT_EQ(share_prompt_budget(std::vector<PromptNeed>{{"a", 0, 100}, {"b", 0, 2}}, 12), (Shares{10, 2}));
  EXPECT_EQ(share_prompt_budget(std::vector<PromptNeed>{{"a", 0, 4}, {"a", 0, 100}, {"b", 0, 100}}, 12),
            (Shares{4, 2, 6}));
}

TEST(PromptBudget, TheLowestPriorityTakesWhatItNeedsFirst) {
  EXPECT_EQ(share_prompt_budget(std::vector<PromptNeed>{{"a", 0, 100}, {"b", -1, 9}}, 12), (Shares{3, 9}));
  EXPECT_EQ(share_prompt_budget(std::vector<PromptNeed>{{"a", 0, 100}, {"b", -1, 90}}, 12), (Shares{0, 12}));
}

}  // namespace
}  // namespace perigee
