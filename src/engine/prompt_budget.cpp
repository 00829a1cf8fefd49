#include "engine/prompt_budget.h"

#include <algorithm>
#include <map>

namespace perigee {
namespace {

struct ClientNeed {
  std::vector<std::size_t> prompts;  // indices in order of admission
  std::size_t tokens = 0;
};

// Gives `tokens` to one client's prompts, first come, first served.
void give(const ClientNeed& client, std::size_t tokens, std::span<const PromptNeed> needs,
          std::vector<std::size_t>& shares) {
  for (const std::size_t i : client.prompts) {
    shares[i] = std::min(tokens, needs[i].tokens);
    tokens -= shares[i];
  }
}

}  // namespace

std::vector<std::size_t> share_prompt_budget(std::span<const PromptNeed> needs, std::size_t budget) {
  std::map<int, std::map<std::string_view, ClientNeed>> by_priority;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    ClientNeed& client = by_priority[needs[i].priority][needs[i].client];
    client.prompts.push_back(i);
    client.tokens += needs[i].tokens;
  }
  std::vector<std::size_t> shares(needs.size(), 0);
  for (const auto& [priority, by_name] : by_priority) {
    std::vector<const ClientNeed*> clients;
    for (const auto& [name, client] : by_name) clients.push_back(&client);
    // Who needs least comes first, so that what it leaves is shared by all the others.
    std::ranges::stable_sort(clients, {}, [](const ClientNeed* client) { return client->tokens; });
    for (std::size_t i = 0; i < clients.size(); ++i) {
      const std::size_t sharing = clients.size() - i;
      const std::size_t tokens = std::min(clients[i]->tokens, (budget + sharing - 1) / sharing);
      give(*clients[i], tokens, needs, shares);
      budget -= tokens;
    }
  }
  return shares;
}

}  // namespace perigee
