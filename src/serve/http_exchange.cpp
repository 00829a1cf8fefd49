#include "serve/http_exchange.h"

#include <utility>

namespace perigee {

void QueuedExchange::wake_locked() const {
  if (wake_) wake_();
}

void QueuedExchange::respond(HttpResponse response) {
  const std::lock_guard lock(mutex_);
  if (ended_ || lost_ || (streaming_ && !begun_early_)) return;
  if (begun_early_) {
    pending_.text += promise_->before_error + response.body + promise_->behind_error;
  } else {
    pending_.head = std::move(response);
  }
  pending_.ended = ended_ = true;
  wake_locked();
}

void QueuedExchange::promise_stream(StreamPromise promise) {
  const std::lock_guard lock(mutex_);
  if (streaming_ || ended_ || lost_) return;
  promise_ = std::move(promise);
  wake_locked();
}

void QueuedExchange::start_stream(HttpResponse head, std::string heartbeat) {
  const std::lock_guard lock(mutex_);
  if (ended_ || lost_ || (streaming_ && !begun_early_)) return;
  if (!begun_early_) pending_.head = std::move(head);
  begun_early_ = false;
  streaming_ = true;
  heartbeat_ = std::move(heartbeat);
  wake_locked();
}

bool QueuedExchange::write(std::string text) {
  const std::lock_guard lock(mutex_);
  if (!streaming_ || begun_early_ || ended_ || lost_) return false;
  if (pending_.text.size() + text.size() > most_bytes_) {
    lost_ = true;  // the transport closes the connection and calls close()
    wake_locked();
    return false;
  }
  pending_.text += text;
  wake_locked();
  return true;
}

void QueuedExchange::finish() {
  const std::lock_guard lock(mutex_);
  if (!streaming_ || ended_ || lost_) return;
  pending_.ended = ended_ = true;
  wake_locked();
}

void QueuedExchange::on_gone(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    if (!lost_) {
      gone_ = std::move(callback);
      return;
    }
  }
  callback();
}

QueuedExchange::Output QueuedExchange::take() {
  const std::lock_guard lock(mutex_);
  Output output = std::exchange(pending_, {});
  output.streaming = streaming_;
  return output;
}

bool QueuedExchange::wants_heartbeats() const {
  const std::lock_guard lock(mutex_);
  return streaming_ || promise_;
}

void QueuedExchange::note_silence() {
  const std::lock_guard lock(mutex_);
  if (ended_ || lost_ || !pending_.empty()) return;
  if (!streaming_ && promise_) {
    begun_early_ = streaming_ = true;
    pending_.head = promise_->head;
    heartbeat_ = promise_->heartbeat;
  }
  if (streaming_) pending_.text = heartbeat_;
}

bool QueuedExchange::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

void QueuedExchange::close() {
  std::function<void()> gone;
  {
    const std::lock_guard lock(mutex_);
    wake_ = nullptr;
    if (!ended_) gone = std::move(gone_);
    gone_ = nullptr;
    lost_ = true;
    pending_ = {};
  }
  if (gone) gone();
}

}  // namespace perigee
