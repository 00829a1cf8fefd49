#include "serve/chat_reply.h"

namespace perigee {

ReplyRequest chat_reply(const ServeContext& context, const ChatRequest& chat, std::string client) {
  ReplyRequest reply = reply_request_of(chat.conversation, context.tokenizer);
  reply.max_tokens =
      checked_max_tokens(context, reply.prompt.ids.size(), chat.max_tokens, chat.max_tokens_param);
  reply.stop = chat.stop;
  reply.sampling = chat.sampling;
  reply.sampling.filter =
      reply_filter(context, chat.conversation, open_channel(reply.prompt.ids, context.tokenizer), chat.rules);
  reply.top_logprobs = chat.top_logprobs;
  reply.client = std::move(client);
  reply.priority = chat.priority;
  return reply;
}

}  // namespace perigee
