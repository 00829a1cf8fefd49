#include "compute/ops_cases.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "compute/random_cases.h"
#include "numerics/bf16.h"

namespace perigee::test {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kF32, WeightFormat::kBf16, WeightFormat::kMxfp4,
                                     WeightFormat::kNvfp4, WeightFormat::kFp8Tile};

void compare_linear(const Ops& ops, const Ops& reference, const Matrix& w, ConstRows x) {
  Tensor found(x.rows, w.rows), expected(x.rows, w.rows);
  const std::string shape = std::string(weight_format_name(w.format)) + " " + std::to_string(w.rows) + " x " +
                            std::to_string(w.columns) + ", " + std::to_string(x.rows) + " tokens";
  ops.linear_f32(w, x, found);
  reference.linear_f32(w, x, expected);
  EXPECT_TRUE(same_bits(found, expected)) << "linear_f32 " << shape;
  ops.linear(w, x, found);
  reference.round(expected);  // what linear is by definition, at half the cost
  EXPECT_TRUE(same_bits(found, expected)) << "linear " << shape;
}

// Five rows whose only products are those of elements 4 and 0 of each lane.
OwnedMatrix two_products(WeightFormat format, float fourth, float first) {
  Random random(11);
  OwnedMatrix w = random_matrix(random, format, 5, 256);
  std::fill(w.values.begin(), w.values.end(), std::byte{0});
  for (std::size_t lane = 0; lane < 5 * 32; ++lane) {
    if (format == WeightFormat::kBf16) {
      const std::uint16_t high = bf16_round(fourth), low = bf16_round(first);
      std::memcpy(w.values.data() + lane * 16 + 8, &high, 2);
      std::memcpy(w.values.data() + lane * 16, &low, 2);
    } else {
      w.values[lane * 4 + 2] = std::byte{1};  // 0.5
      w.values[lane * 4] = std::byte{9};      // -0.5
    }
  }
  return w;
}

// Products that cancel to the last bit of the smallest activations, where vdpbf16ps would give zero: on both
// sides of the bounds from which it may be used (docs/numerics.md).
void check_subnormal_sums(const Ops& ops, const Ops& reference) {
  const auto activations = [](float fourth, float first) {
    Tensor x(5, 256);
    for (std::size_t i = 0; i < 5 * 256; i += 8) {
      x.values()[i + 4] = fourth;
      x.values()[i] = first;
    }
    return x;
  };
  for (const WeightFormat format : {WeightFormat::kMxfp4, WeightFormat::kNvfp4}) {
    for (int e = -122; e <= -114; ++e) {
      const float size = std::ldexp(1.0f, e);
      compare_linear(ops, reference, two_products(format, 0, 0).view, activations(size * 0x1.02p0f, size));
    }
  }
  for (int e = -51; e <= -47; ++e) {
    for (int f = -65; f <= -61; ++f) {
      const float w = std::ldexp(1.0f, f), x = std::ldexp(1.0f, e);
      compare_linear(ops, reference, two_products(WeightFormat::kBf16, w * 0x1.02p0f, -w).view,
                     activations(x * 0x1.02p0f, x * 0x1.04p0f));
    }
  }
  // Weights that are subnormal themselves, with ordinary activations.
  Random random(12);
  for (const float tiny : {0x1p-133f, 0x1p-130f, 0x1p-126f, 0x1p-64f, 0x1p-63f}) {
    compare_linear(ops, reference, two_products(WeightFormat::kBf16, tiny, -1.5f * tiny).view,
                   random_rows(random, 5, 256, Precision::kBf16));
  }
}

// The smallest scale there is, alone; and sums that underflow to -0, which a short last block must not turn
// into +0.
void check_scales_at_their_end(const Ops& ops, const Ops& reference) {
  Random random(13);
  for (const WeightFormat format : {WeightFormat::kMxfp4, WeightFormat::kNvfp4}) {
    for (const std::size_t columns : {256u, 288u}) {
      for (const std::size_t tokens : {1u, 6u, 12u}) {
        OwnedMatrix w = random_matrix(random, format, 6, columns);
        for (std::byte& scale : w.scales) scale = std::byte{0};
        compare_linear(ops, reference, w.view, random_rows(random, tokens, columns, Precision::kBf16));
        for (std::byte& scale : w.scales) scale = std::byte{1};
        compare_linear(ops, reference, w.view, random_rows(random, tokens, columns, Precision::kBf16));
        for (std::byte& pair : w.values) pair = std::byte{0x99};  // -0.5
        for (std::byte& scale : w.scales) scale = std::byte{0};
        Tensor x(tokens, columns);
        std::fill(x.values().begin(), x.values().end(), 0x1p-40f);
        compare_linear(ops, reference, w.view, x);
      }
    }
  }
}

// A lane whose sum underflowed to -0 meets products that are zeros: by definition (docs/numerics.md) they
// start from +0, so that exact zeros make it +0 and products that underflow to -0 leave it as it is.
void check_signs_of_zero(const Ops& ops, const Ops& reference) {
  Random random(14);
  OwnedMatrix w = random_matrix(random, WeightFormat::kMxfp4, 6, 512);
  for (std::byte& scale : w.scales) scale = std::byte{0};  // 2^-127
  const float least = std::numeric_limits<float>::denorm_min();
  for (const auto& [second_weight, second_activation] : {std::pair(0x00, -1.0f), std::pair(0x11, -least)}) {
    for (std::size_t i = 0; i < w.values.size(); ++i)
      w.values[i] =
          i % 256 < 128 ? std::byte{0x99} : std::byte(second_weight);  // -0.5 in a row's first block
    for (const std::size_t tokens : {1u, 6u, 12u}) {
      Tensor x(tokens, 512);
      for (std::size_t i = 0; i < x.values().size(); ++i)
        x.values()[i] = i % 512 < 256 ? 0x1p-40f : second_activation;
      compare_linear(ops, reference, w.view, x);
    }
  }
}

// Enough tokens for tiles, into which MXFP4's scales are folded from 2^-30 to 2^30, if activations are
// between 2^-90 and 2^90. Sizes of products go to both ends of floats' range, where sums of folded weights
// would round or overflow and others not, and scales and activations to both sides of their bounds.
void check_folded_scales(const Ops& ops, const Ops& reference) {
  Random random(17);
  for (const int size : {-155, -149, -147, -143, -130, -120, 0, 119, 122, 124, 126}) {
    for (const int exponent : {-125, -117, -113, -91, -90, -89, -60, 0, 60, 89, 90, 91, 120, 127}) {
      const int scale = size - exponent;
      if (scale < -127 || scale > 127) continue;
      OwnedMatrix w = random_matrix(random, WeightFormat::kMxfp4, 17, 512);
      for (std::byte& code : w.scales) code = std::byte(127 + scale);
      for (std::size_t i = 0; i < w.values.size(); ++i)  // of every other row one lane alone
        if (i % 512 >= 4 && i % 512 < 256) w.values[i] = std::byte{0};
      Tensor x(12, 512);
      for (float& value : x.values()) {
        const float significand = 1 + static_cast<float>(random.bits() >> 9) * 0x1p-23f;
        value = std::ldexp(random.below(2) == 0 ? significand : -significand, exponent);
      }
      compare_linear(ops, reference, w.view, x);
      for (float& value : x.values()) value = round_to_bf16(value);
      compare_linear(ops, reference, w.view, x);
      w.scales[random.below(static_cast<std::uint32_t>(w.scales.size()))] = std::byte(random.below(256));
      compare_linear(ops, reference, w.view, x);
    }
  }
}

// A lane's activations: bf16 numbers whose lowest bits lie up to `spread` powers of two above 2^base.
void fill_lane(Random& random, int base, int spread, float* lane) {
  for (std::size_t i = 0; i < 8; ++i) {
    const int power = i == 0 ? 0 : static_cast<int>(random.below(static_cast<std::uint32_t>(spread) + 1));
    const float sign = random.below(2) == 0 ? 1.0f : -1.0f;
    lane[i] = std::ldexp(sign * static_cast<float>(2 * random.below(128) + 1), base + power);
  }
  std::swap(lane[0], lane[random.below(8)]);
}

// Weights of a row that make a lane's sum as large as it can be and its last bit count: 6 with the signs of
// x, but 0.5 at the smallest.
void match_lane(const float* x, std::byte* nibbles) {
  const float* smallest =
      std::min_element(x, x + 8, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  for (std::size_t i = 0; i < 8; ++i) {
    const int code = (x + i == smallest ? 1 : 7) + (x[i] < 0 ? 8 : 0);
    nibbles[i / 2] |= std::byte(code << i % 2 * 4);
  }
}

// The first lane by which the limit of exact sums is passed: in halves, three products of 6 make 2^24 + 8,
// where neither of two products of 1/2 moves the sum of floats.
void check_first_inexact_sum(const Ops& ops, const Ops& reference) {
  Random random(16);
  Tensor x(1, 256);
  OwnedMatrix w = random_matrix(random, WeightFormat::kMxfp4, 1, 256);
  std::fill(w.values.begin(), w.values.end(), std::byte{0});
  std::fill(w.scales.begin(), w.scales.end(), std::byte{127});
  const float lane[8] = {0x1540p0f, 0, 0, 1, 0x154000p0f, 0x16p0f, 0, 1};
  for (std::size_t i = 0; i < 8; ++i) {
    x.values()[i] = lane[i];
    const int code = lane[i] == 1 ? 1 : 7;
    w.values[i / 2] |= std::byte(code << i % 2 * 4);
  }
  compare_linear(ops, reference, w.view, x);
}

// One token whose lanes are, or nearly are, whole numbers with exact sums (docs/numerics.md, "Fast forms").
void check_whole_numbers(const Ops& ops, const Ops& reference) {
  constexpr std::size_t kColumns = 512, kRows = 5;
  Random random(15);
  for (const WeightFormat format : {WeightFormat::kMxfp4, WeightFormat::kNvfp4}) {
    for (int spread = 5; spread <= 20; ++spread) {
      for (const int base : {-149, -126, -101, -100, -99, -20, 90, 98, 99, 100, 101}) {
        Tensor x(1, kColumns);
        OwnedMatrix w = random_matrix(random, format, kRows, kColumns);
        std::fill_n(w.values.begin(), kColumns / 2, std::byte{0});  // the first row
        for (std::size_t i = 0; i < kColumns; i += 8) {
          fill_lane(random, base, random.below(4) == 0 ? spread : 5, &x.values()[i]);
          match_lane(&x.values()[i], &w.values[i / 2]);
        }
        if (base == 90) x.values()[random.below(kColumns)] = 0;
        compare_linear(ops, reference, w.view, x);
        if (base == -20) x.values()[random.below(kColumns)] = 0x1.0002p-10f;  // no bf16 number
        compare_linear(ops, reference, w.view, x);
      }
    }
    compare_linear(ops, reference, random_matrix(random, format, kRows, kColumns).view, Tensor(1, kColumns));
  }
}

}  // namespace

void check_linear(const Ops& ops, const Ops& reference) {
  Random random(1);
  for (const WeightFormat format : kFormats) {
    for (const std::size_t columns : {32u, 256u, 544u}) {
      for (const std::size_t tokens : {1u, 2u, 3u, 4u, 5u, 7u, 8u}) {
        const std::size_t rows = 1 + random.below(20);
        const OwnedMatrix w = random_matrix(random, format, rows, columns);
        compare_linear(ops, reference, w.view, random_rows(random, tokens, columns, ops.precision()));
        compare_linear(ops, reference, w.view, random_rows(random, tokens, columns, Precision::kF32));
      }
    }
  }
  // Widths that no group of scales and no lane divides.
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBf16, WeightFormat::kFp8Tile}) {
    for (const std::size_t columns : {1u, 7u, 8u, 129u, 255u, 259u, 520u}) {
      const OwnedMatrix w =
          random_matrix(random, format, format == WeightFormat::kFp8Tile ? 130 : 9, columns);
      compare_linear(ops, reference, w.view, random_rows(random, 2, columns, ops.precision()));
    }
  }
  for (const std::size_t columns : {16u, 48u, 272u}) {
    const OwnedMatrix w = random_matrix(random, WeightFormat::kNvfp4, 9, columns);
    compare_linear(ops, reference, w.view, random_rows(random, 1, columns, ops.precision()));
  }
}

void check_linear_with_many_tokens(const Ops& ops, const Ops& reference) {
  Random random(2);
  for (const WeightFormat format : kFormats) {
    for (const std::size_t tokens : {6u, 8u, 9u, 33u, 37u}) {
      const OwnedMatrix w = random_matrix(random, format, 5 + random.below(8), 288);
      compare_linear(ops, reference, w.view, random_rows(random, tokens, 288, ops.precision()));
    }
    // Whole blocks, more than a panel of them; whole sets of rows and some beside; more than a chunk of
    // tokens.
    for (const std::size_t tokens : {8u, 12u, 67u}) {
      const OwnedMatrix w = random_matrix(random, format, 21, 1536);
      compare_linear(ops, reference, w.view, random_rows(random, tokens, 1536, ops.precision()));
    }
    // A last block that ends after or in each group of lanes, in a panel of its own or behind others.
    const bool any_width = format == WeightFormat::kF32 || format == WeightFormat::kBf16;
    for (const std::size_t columns :
         {64u, 320u, 576u, 608u, 704u, 960u, 1056u, 1088u, 1280u, 3u, 259u, 1031u}) {
      if (columns % 32 != 0 && !any_width) continue;
      const OwnedMatrix w = random_matrix(random, format, 18, columns);
      compare_linear(ops, reference, w.view, random_rows(random, 10, columns, ops.precision()));
      compare_linear(ops, reference, w.view,
                     random_rows(random, 10, columns, ops.precision(), Values::kExtreme));
    }
  }
}

void check_linear_with_extreme_values(const Ops& ops, const Ops& reference) {
  Random random(3);
  for (const WeightFormat format : kFormats) {
    for (const Values weights : {Values::kOrdinary, Values::kExtreme}) {
      for (const std::size_t tokens : {1u, 4u, 9u}) {
        const OwnedMatrix w = random_matrix(random, format, 13, 608, weights);
        compare_linear(ops, reference, w.view,
                       random_rows(random, tokens, 608, Precision::kBf16, Values::kExtreme));
        compare_linear(ops, reference, w.view, random_rows(random, tokens, 608, Precision::kBf16));
      }
    }
  }
  check_subnormal_sums(ops, reference);
  check_scales_at_their_end(ops, reference);
  check_signs_of_zero(ops, reference);
  check_folded_scales(ops, reference);
  check_whole_numbers(ops, reference);
  check_first_inexact_sum(ops, reference);
  // Infinities, NaN and scales that are NaN stay what they are.
  OwnedMatrix w = random_matrix(random, WeightFormat::kMxfp4, 5, 512);
  w.scales[3] = std::byte{255};
  w.scales[20] = std::byte{0};
  Tensor x = random_rows(random, 2, 512, Precision::kBf16);
  compare_linear(ops, reference, w.view, x);
  x[0][77] = std::numeric_limits<float>::infinity();
  x[1][300] = std::numeric_limits<float>::quiet_NaN();
  compare_linear(ops, reference, w.view, x);
}

void check_norms(const Ops& ops, const Ops& reference) {
  Random random(4);
  for (const Values values : {Values::kOrdinary, Values::kExtreme}) {
    for (const std::size_t width : {1u, 5u, 8u, 33u, 128u, 256u, 700u, 2048u}) {
      for (const std::size_t tokens : {1u, 8u, 33u}) {
        const Tensor x = random_rows(random, tokens, width, ops.precision(), values);
        const Tensor weight = random_rows(random, 1, width, Precision::kBf16);
        Tensor found(tokens, width), expected(tokens, width);
        ops.rms_norm(x, weight.values(), 1e-5f, found);
        reference.rms_norm(x, weight.values(), 1e-5f, expected);
        EXPECT_TRUE(same_bits(found, expected)) << "rms_norm " << width;
        if (width > 256) continue;
        const Tensor heads = random_rows(random, tokens, 3 * width, ops.precision(), values);
        const Tensor gate = random_rows(random, tokens, 3 * width, ops.precision(), values, 4);
        Tensor gated(tokens, 3 * width), expected_gated(tokens, 3 * width);
        ops.gated_head_norm(heads, gate, weight.values(), 1e-5f, gated);
        reference.gated_head_norm(heads, gate, weight.values(), 1e-5f, expected_gated);
        EXPECT_TRUE(same_bits(gated, expected_gated)) << "gated_head_norm " << width;
      }
    }
  }
}

void check_elementwise(const Ops& ops, const Ops& reference) {
  Random random(5);
  for (const Values values : {Values::kOrdinary, Values::kExtreme}) {
    for (const std::size_t width : {1u, 7u, 16u, 51u, 1027u}) {
      for (const std::size_t tokens : {1u, 8u, 33u}) {
        const Tensor x = random_rows(random, tokens, width, ops.precision(), values, 3);
        const Tensor gate = random_rows(random, tokens, width, ops.precision(), values, 3);
        const auto compare = [&](const char* name, auto call) {
          Tensor found = gate, expected = gate;
          call(ops, found);
          call(reference, expected);
          EXPECT_TRUE(same_bits(found, expected)) << name << " " << tokens << " x " << width;
        };
        compare("add", [&](const Ops& o, Rows y) { o.add(x, y); });
        compare("round", [&](const Ops& o, Rows y) { o.round(y); });
        compare("sigmoid_gate", [&](const Ops& o, Rows y) { o.sigmoid_gate(x, gate, y); });
        compare("situ", [&](const Ops& o, Rows y) { o.situ(gate, x, {10.0f, 7.5f}, y); });
        std::vector<std::uint32_t> tokens_of_expert;
        std::vector<float> weights;
        for (std::uint32_t t = 0; t < tokens; t += 2) {
          tokens_of_expert.push_back(t);
          weights.push_back(random.value(1));
        }
        compare("add_weighted",
                [&](const Ops& o, Rows y) { o.add_weighted(x, weights, tokens_of_expert, y); });
      }
    }
  }
}

// Gates and decays over all magnitudes: every 65,537th float, a prime's step through mantissas and exponents.
void check_elementary_ranges(const Ops& ops, const Ops& reference) {
  std::vector<float> all;
  for (std::uint64_t bits = 0; bits < 0x1'0000'0000; bits += 65537)
    all.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  for (float x = -110; x < 110; x += 0.0371f) all.push_back(x);
  for (const float edge : {88.8f, -104.0f, 0.625f, -0.625f, 0.0f, -0.0f}) {
    all.push_back(edge);
    all.push_back(std::nextafter(edge, 1000.0f));
    all.push_back(std::nextafter(edge, -1000.0f));
  }
  Tensor gate(1, all.size()), ones(1, all.size());
  std::copy(all.begin(), all.end(), gate[0]);
  std::fill(ones.values().begin(), ones.values().end(), 1.0f);
  Tensor found(1, all.size()), expected(1, all.size());
  ops.sigmoid_gate(ones, gate, found);
  reference.sigmoid_gate(ones, gate, expected);
  EXPECT_TRUE(same_bits(found, expected));
  ops.situ(gate, ones, {1.0f, 1.0f}, found);  // tanh and sigmoid of everything
  reference.situ(gate, ones, {1.0f, 1.0f}, expected);
  EXPECT_TRUE(same_bits(found, expected));
  ops.situ(ones, gate, {1.0f, 1.0f}, found);
  reference.situ(ones, gate, {1.0f, 1.0f}, expected);
  EXPECT_TRUE(same_bits(found, expected));
}

void check_attention_residual(const Ops& ops, const Ops& reference) {
  Random random(6);
  for (const std::size_t width : {3u, 16u, 250u, 1030u}) {
    for (const std::size_t tokens : {1u, 8u, 33u}) {
      for (const std::size_t count : {1u, 2u, 7u}) {
        std::vector<Tensor> values;
        std::vector<ConstRows> sources;
        for (std::size_t j = 0; j < count; ++j) {
          values.push_back(random_rows(random, tokens, width, ops.precision()));
          sources.push_back(values.back());
        }
        for (std::size_t j = 0; j < count; ++j) sources[j] = values[j];
        const Tensor norm = random_rows(random, 1, width, Precision::kBf16);
        const Tensor proj = random_rows(random, 1, width, Precision::kBf16);
        Tensor found(tokens, width), expected(tokens, width);
        ops.attention_residual(sources, norm.values(), proj.values(), 1e-5f, found);
        reference.attention_residual(sources, norm.values(), proj.values(), 1e-5f, expected);
        EXPECT_TRUE(same_bits(found, expected)) << count << " sources of " << tokens << " x " << width;
      }
    }
  }
}

void check_short_convolution(const Ops& ops, const Ops& reference) {
  Random random(7);
  for (const Values values : {Values::kOrdinary, Values::kExtreme}) {
    for (const std::size_t taps : {1u, 2u, 4u, 17u}) {
      for (const std::size_t width : {1u, 24u, 131u, 700u}) {
        const Tensor weight = random_rows(random, 1, width * taps, Precision::kBf16);
        Tensor state = random_rows(random, taps - 1, width, ops.precision(), values);
        Tensor expected_state = state;
        for (const std::size_t tokens : {1u, 2u, 8u, 33u}) {  // the state goes on from call to call
          const Tensor x = random_rows(random, tokens, width, ops.precision(), values);
          Tensor found(tokens, width), expected(tokens, width);
          ops.short_convolution(x, weight.values(), taps, state, found);
          reference.short_convolution(x, weight.values(), taps, expected_state, expected);
          EXPECT_TRUE(same_bits(found, expected)) << taps << " taps, " << tokens << " x " << width;
          EXPECT_TRUE(same_bits(state, expected_state));
        }
      }
    }
  }
}

void check_kda(const Ops& ops, const Ops& reference) {
  Random random(8);
  for (const auto& [heads, dim] : std::initializer_list<std::pair<std::size_t, std::size_t>>{
           {1, 4}, {3, 16}, {2, 37}, {3, 64}, {2, 128}}) {
    const std::size_t width = heads * dim;
    const Tensor a_log = random_rows(random, 1, heads, Precision::kF32);
    const Tensor dt_bias = random_rows(random, 1, width, Precision::kF32);
    const KdaParameters parameters{heads, dim, -5.0f, a_log[0], dt_bias[0]};
    Tensor state = random_rows(random, width, dim, Precision::kF32);
    Tensor expected_state = state;
    for (const std::size_t tokens : {1u, 8u, dim < 64 ? 33u : 2u}) {
      const auto rows = [&](std::size_t columns) {
        return random_rows(random, tokens, columns, ops.precision());
      };
      const Tensor q = rows(width), k = rows(width), v = rows(width), g = rows(width), b = rows(heads);
      Tensor found(tokens, width), expected(tokens, width);
      ops.kda(q, k, v, g, b, parameters, state, found);
      reference.kda(q, k, v, g, b, parameters, expected_state, expected);
      EXPECT_TRUE(same_bits(found, expected)) << heads << " heads of " << dim << ", " << tokens << " tokens";
      EXPECT_TRUE(same_bits(state, expected_state)) << heads << " heads of " << dim;
    }
  }
}

void check_mla(const Ops& ops, const Ops& reference) {
  Random random(9);
  struct Shape {
    MlaParameters parameters;
    WeightFormat format;
    std::size_t first_position, tokens;
  };
  const Shape shapes[] = {
      {{2, 8, 4, 8, 16}, WeightFormat::kF32, 0, 1},       {{5, 16, 8, 24, 32}, WeightFormat::kBf16, 0, 8},
      {{3, 16, 8, 16, 64}, WeightFormat::kMxfp4, 250, 9}, {{7, 8, 8, 8, 48}, WeightFormat::kNvfp4, 511, 1},
      {{4, 8, 7, 9, 40}, WeightFormat::kFp8Tile, 600, 1}, {{3, 5, 3, 7, 19}, WeightFormat::kBf16, 240, 33},
      {{3, 8, 4, 8, 21}, WeightFormat::kFp8Tile, 2, 3},   {{40, 8, 4, 8, 16}, WeightFormat::kBf16, 300, 1},
      {{53, 8, 64, 8, 512}, WeightFormat::kBf16, 130, 1}, {{2, 8, 64, 8, 96}, WeightFormat::kBf16, 100, 180},
      {{3, 8, 8, 8, 40}, WeightFormat::kBf16, 122, 13},
  };
  for (const auto& [p, format, first_position, tokens] : shapes) {
    const std::size_t width = p.latent_dim + p.rope_dim;
    const std::size_t positions = first_position + tokens;
    const WeightFormat kept = ops.precision() == Precision::kBf16 ? WeightFormat::kBf16 : WeightFormat::kF32;
    std::vector<OwnedMatrix> pieces;
    std::vector<const std::byte*> pointers;
    for (std::size_t begin = 0; begin < positions; begin += kMlaPiece)
      pieces.push_back(random_matrix(random, kept, kMlaPiece, width));
    for (const OwnedMatrix& piece : pieces) pointers.push_back(piece.view.values);
    const OwnedMatrix kv_b =
        random_matrix(random, format, p.heads * (p.nope_dim + p.value_dim), p.latent_dim);
    const Tensor q = random_rows(random, tokens, p.heads * (p.nope_dim + p.rope_dim), ops.precision());
    Tensor found(tokens, p.heads * p.value_dim), expected(tokens, p.heads * p.value_dim);
    ops.mla(q, kv_b.view, {pointers, positions, kept}, first_position, p, found);
    reference.mla(q, kv_b.view, {pointers, positions, kept}, first_position, p, expected);
    EXPECT_TRUE(same_bits(found, expected))
        << weight_format_name(format) << ", " << tokens << " tokens at " << first_position;

    // The same latents kept in float32.
    std::vector<Tensor> wide;
    std::vector<const std::byte*> wide_pointers;
    for (const OwnedMatrix& piece : pieces) {
      Tensor& floats = wide.emplace_back(kMlaPiece, width);
      for (std::size_t i = 0; i < kMlaPiece * width; ++i)
        floats.values()[i] = matrix_element(piece.view, i / width, i % width);
    }
    for (const Tensor& piece : wide) wide_pointers.push_back(reinterpret_cast<const std::byte*>(piece[0]));
    ops.mla(q, kv_b.view, {wide_pointers, positions, WeightFormat::kF32}, first_position, p, found);
    EXPECT_TRUE(same_bits(found, expected)) << "float32 latents, " << weight_format_name(format);
  }
}

void check_router_and_embedding(const Ops& ops, const Ops& reference) {
  Random random(10);
  const Tensor bias = random_rows(random, 1, 56, Precision::kF32, Values::kOrdinary, 0.1f);
  const RouterParameters parameters{6, true, 2.5f, bias[0]};
  const Tensor logits = random_rows(random, 33, 56, Precision::kF32, Values::kOrdinary, 3);
  std::vector<RoutedToken> found(33), expected(33);
  ops.route(logits, parameters, found);
  reference.route(logits, parameters, expected);
  for (std::size_t t = 0; t < 33; ++t) {
    EXPECT_EQ(found[t].experts, expected[t].experts);
    EXPECT_EQ(found[t].weights, expected[t].weights);
  }
  const OwnedMatrix table = random_matrix(random, WeightFormat::kBf16, 10, 700);
  const std::vector<std::uint32_t> ids = {3, 9, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1};
  Tensor rows(ids.size(), 700), expected_rows(ids.size(), 700);
  ops.embed(table.view, ids, rows);
  reference.embed(table.view, ids, expected_rows);
  EXPECT_TRUE(same_bits(rows, expected_rows));
}

}  // namespace perigee::test
