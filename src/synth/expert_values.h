// The bytes of one routed expert's projection: packed nibbles and scale bytes agree because both are drawn
// from the same stream, group by group. Output comes in units of 16 bytes, any unit on its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "synth/group_library.h"
#include "synth/synth.h"

namespace perigee::synth {

class ExpertValues {
 public:
  // `library` must outlive this. `key` is the stream of the module. The module has rows x (32 *
  // groups_per_row) weights.
  ExpertValues(const GroupLibrary& library, const ExpertStress& stress, const TensorName& name,
               std::uint64_t key, std::uint64_t groups_per_row);

  // Unit u is the packed group u.
  void packed_units(std::uint64_t first, std::uint64_t count, std::byte* out) const;
  // Unit u has the scale bytes of groups 16u … 16u+15.
  void scale_units(std::uint64_t first, std::uint64_t count, std::byte* out) const;

 private:
  struct Row {
    unsigned deviation = 0;
    std::int32_t exponent = 0;
  };
  Row row(std::uint64_t number) const;
  const MxGroup& group(const Row& row, std::uint64_t number) const;
  bool is_zero(std::uint64_t group) const;
  std::uint64_t signs(std::uint64_t codes, std::uint64_t bits, std::uint64_t word) const;
  unsigned scale_byte(const Row& row, std::uint64_t number) const;
  unsigned zero_scale_byte(unsigned kept, std::uint64_t number) const;

  const GroupLibrary& library_;
  ExpertStress stress_;  // all off if this expert is not chosen
  std::uint64_t key_, row_key_, sign_key_, stress_key_;
  std::uint64_t groups_per_row_;
  std::int32_t lowered_ = 0;  // of an uneven pair
  bool all_zero_ = false;
};

}  // namespace perigee::synth
