#include "plan/run_plan.h"

#include <algorithm>

#include "base/error.h"
#include "experts/streamed_options.h"

namespace perigee {
namespace {

constexpr std::uint64_t kGigabyte = 1'000'000'000;
constexpr std::uint64_t kPromptSteps = 256;  // tokens

double to_double(std::uint64_t number) {
  return static_cast<double>(number);
}

MemoryNeeds needs_of(const ModelSizes& sizes, const RunRequest& request) {
  MemoryNeeds needs;
  needs.trunk = sizes.trunk_bytes();
  needs.states = request.sequences * (sizes.state_bytes + request.context * sizes.cache_bytes_a_token);
  needs.activations_a_token = sizes.activations_a_token;
  needs.expert_count = sizes.expert_count();
  needs.experts = needs.expert_count * sizes.expert_bytes;
  needs.slot = sizes.slot_bytes;
  return needs;
}

// Of a step over so many tokens: memory or instructions, whichever is slower.
double trunk_seconds(const ModelSizes& sizes, const RunRates& rates, double tokens) {
  double seconds = 0;
  for (const TrunkPart& part : sizes.trunk) {
    if (part.weights == 0) continue;
    const double plain = to_double(part.bytes - part.four_bit_bytes),
                 four_bit = to_double(part.four_bit_bytes);
    const double reading =
        plain / rates.plain.one_token_bytes_per_second + four_bit / rates.four_bit.one_token_bytes_per_second;
    const double macs_per_second =
        four_bit > plain ? rates.four_bit.prompt_macs_per_second : rates.plain.prompt_macs_per_second;
    seconds += std::max(reading, tokens * part.weights / macs_per_second);
  }
  return seconds;
}

// Recurrent states once in and out for every token, MLA's look back from `position` on.
double attention_seconds(const ModelSizes& sizes, const RunRates& rates, double position, double tokens) {
  const double states = tokens * 2 * to_double(sizes.state_bytes) / rates.memory_bytes_per_second;
  const double positions = tokens * (position + tokens / 2);
  return states + positions * sizes.attention_macs_a_position / rates.plain.prompt_macs_per_second;
}

// With one expert, for so many tokens that chose it.
double expert_seconds(const ModelSizes& sizes, const RunRates& rates, double tokens) {
  return std::max(to_double(sizes.expert_bytes) / rates.four_bit.one_token_bytes_per_second,
                  tokens * sizes.expert_weights / rates.four_bit.prompt_macs_per_second);
}

void add_prompt(RunSpeed& speed, const ModelSizes& sizes, const RunRequest& request, const RunRates& rates,
                const MemoryPlan& memory) {
  const double present =
      sizes.expert_count() > 0 ? to_double(memory.slots) / to_double(sizes.expert_count()) : 1;
  const auto layers = to_double(sizes.moe_layers);
  for (std::uint64_t done = 0; done < request.prompt; done += memory.prompt_chunk) {
    const double tokens = to_double(std::min<std::uint64_t>(memory.prompt_chunk, request.prompt - done));
    LayerModel layer;
    layer.experts = distinct_experts(to_double(sizes.experts), to_double(sizes.top_k), tokens);
    layer.reads = memory.resident ? 0 : layer.experts * (1 - present);
    const double choices = tokens * to_double(sizes.top_k);
    layer.expert_seconds = layer.experts > 0 ? expert_seconds(sizes, rates, choices / layer.experts) : 0;
    speed.prompt_seconds += trunk_seconds(sizes, rates, tokens) +
                            attention_seconds(sizes, rates, to_double(done), tokens) +
                            layers * mean_layer_seconds(rates.drive, to_double(sizes.expert_bytes), layer);
    speed.prompt_read_bytes += layers * layer.reads * to_double(sizes.expert_bytes);
  }
}

RunSpeed speed_of(const ModelSizes& sizes, const RunRequest& request, const RunRates& rates,
                  const HitModel& hits, const MemoryPlan& memory) {
  RunSpeed speed;
  speed.hit_rate = memory.resident ? 1 : hits.hit_rate(memory.slots);
  LayerModel layer;
  layer.experts = to_double(sizes.top_k);
  layer.reads = layer.experts * (1 - speed.hit_rate);
  layer.expert_seconds = expert_seconds(sizes, rates, 1);
  const auto layers = to_double(sizes.moe_layers);
  speed.read_bytes = layers * layer.reads * to_double(sizes.expert_bytes);
  speed.trunk_seconds =
      trunk_seconds(sizes, rates, 1) + attention_seconds(sizes, rates, to_double(request.prompt), 1);
  speed.experts_seconds = layers * mean_layer_seconds(rates.drive, to_double(sizes.expert_bytes), layer);
  add_prompt(speed, sizes, request, rates, memory);
  return speed;
}

// The least that plan_memory() takes, found by asking it: what it says is what loading will do.
std::uint64_t least_ram(const MemoryNeeds& needs, ExpertHome home) {
  std::uint64_t refused = 0, taken = needs.trunk + needs.states + needs.experts + (std::uint64_t{1} << 44);
  while (taken - refused > 1) {
    const std::uint64_t middle = refused + (taken - refused) / 2;
    try {
      plan_memory(needs, middle, home);
      taken = middle;
    } catch (const Error&) {
      refused = middle;
    }
  }
  return taken;
}

RunRequest with_ram(RunRequest request, std::uint64_t bytes) {
  request.ram_bytes = bytes;
  return request;
}

RunRates with_one_more_drive(RunRates rates) {
  rates.drive.drives += 1;
  return rates;
}

double tokens_a_second(const RunOutlook& outlook) {
  return outlook.memory ? 1 / outlook.speed.token_seconds() : 0;
}

}  // namespace

RunRates run_rates(const MachineRates& rates, unsigned drives) {
  std::vector<DriveModel::Point> points;
  for (const DepthRate& rate : rates.drive.depths) points.push_back({rate.depth, rate.bytes_per_second});
  return {rates.memory_bytes_per_second, rates.bf16, rates.mxfp4,
          DriveModel::through(points, StreamedOptions{}.reads_per_drive, drives)};
}

RunOutlook look_ahead(const std::string& name, const ModelSizes& sizes, const RunRequest& request,
                      const RunRates& rates, const HitModel& hits) {
  RunOutlook outlook{name, request.ram_bytes, std::nullopt, "", {}};
  try {
    outlook.memory = plan_memory(needs_of(sizes, request), request.ram_bytes, request.home);
    outlook.speed = speed_of(sizes, request, rates, hits, *outlook.memory);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNoSpace) throw;
    outlook.refusal = error.what();
  }
  return outlook;
}

RunPlan plan_run(const ModelSizes& sizes, const RunRequest& request, const RunRates& rates,
                 const HitModel& hits) {
  RunPlan plan;
  plan.now = look_ahead("as it is", sizes, request, rates, hits);
  const MemoryNeeds needs = needs_of(sizes, request);
  plan.least_ram_bytes = least_ram(needs, ExpertHome::kStreamed);
  plan.resident_ram_bytes = least_ram(needs, ExpertHome::kResident);

  const std::uint64_t more = std::max(kGigabyte, request.ram_bytes / 4);
  const RunOutlook larger = look_ahead(fmt::format("{} GB more memory", more / kGigabyte), sizes,
                                       with_ram(request, request.ram_bytes + more), rates, hits);
  plan.tokens_a_second_per_gigabyte =
      (tokens_a_second(larger) - tokens_a_second(plan.now)) * to_double(kGigabyte) / to_double(more);
  plan.changes.push_back(larger);
  plan.changes.push_back(look_ahead("one more drive", sizes, request, with_one_more_drive(rates), hits));
  for (const PlaneFormat format : {PlaneFormat::kFp8, PlaneFormat::kNvfp4}) {
    plan.changes.push_back(look_ahead(fmt::format("all planes {}", plane_format_name(format)),
                                      with_planes(sizes, format), request, rates, hits));
  }
  // The least would leave so little for a prompt's steps that they were slow.
  const std::uint64_t resident = plan.resident_ram_bytes + kPromptSteps * sizes.activations_a_token;
  plan.changes.push_back(look_ahead("all experts in memory", sizes,
                                    with_ram(request, std::max(request.ram_bytes, resident)), rates, hits));
  return plan;
}

}  // namespace perigee
