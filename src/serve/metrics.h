// Counters and times of the server in Prometheus' text format. Names are vLLM's where the meaning is the
// same, so that existing dashboards fit (docs/serving.md).
#pragma once

#include <memory>
#include <string>

#include "engine/job.h"
#include "serve/generation_service.h"

namespace perigee {

// All methods may be called from any thread.
class ServerMetrics {
 public:
  explicit ServerMetrics(const std::string& model_name);
  ~ServerMetrics();
  ServerMetrics(const ServerMetrics&) = delete;
  ServerMetrics& operator=(const ServerMetrics&) = delete;

  void count_request(const std::string& route, int status);
  void count_job(const JobSummary& summary, const std::string& finish_reason);
  void count_reply_note(const std::string& note);  // a repair by the reply parser
  void connection_opened();
  void connection_closed();
  void client_left();  // before its answer was complete

  std::string text(const ServiceState& state) const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace perigee
