// Everything that works element by element or row by row. Included inside an anonymous namespace, after
// linear_body.h and elementary_body.h.

// The first `count` floats of a vector; the other lanes are zero, or stay as they are in memory.
PERIGEE_INLINE F load_part(const float* from, std::size_t count) {
  alignas(64) float lanes[kWidth] = {};
  std::memcpy(lanes, from, count * sizeof(float));
  return load(lanes);
}
PERIGEE_INLINE void store_part(float* to, std::size_t count, F x) {
  alignas(64) float lanes[kWidth];
  store(lanes, x);
  std::memcpy(to, lanes, count * sizeof(float));
}

// y[i] = value(at), where at(x) is x[i …] as a vector.
template <typename Value>
PERIGEE_INLINE void for_vectors(std::size_t begin, std::size_t end, float* y, Value value) {
  std::size_t i = begin;
  for (; i + kWidth <= end; i += kWidth) {
    store(y + i, value([i](const float* x) PERIGEE_LAMBDA { return load(x + i); }));
  }
  if (i == end) return;
  const std::size_t left = end - i;
  store_part(y + i, left, value([i, left](const float* x) PERIGEE_LAMBDA { return load_part(x + i, left); }));
}

// A block of floats in the order of the dot product; a short one is padded with zeros, which leave every sum
// as it is: without scales no lane is ever -0.
struct BlockWords {
  F words[kGroups][8];

  PERIGEE_INLINE BlockWords(const float* x, std::size_t length) {
    alignas(64) float padded[kDotBlock];
    if (length < kDotBlock) {
      std::memset(padded, 0, sizeof padded);
      std::memcpy(padded, x, length * sizeof(float));
      x = padded;
    }
    FloatForm<WeightFormat::kF32>::Guard guard;
    for (std::size_t g = 0; g < kGroups; ++g)
      FloatForm<WeightFormat::kF32>::decode(
          reinterpret_cast<const std::byte*>(x) + g * kGroupBytes<WeightFormat::kF32>, words[g], guard);
  }
};

PERIGEE_INLINE void add_products(const BlockWords& a, const BlockWords& b, F (&sums)[kGroups]) {
  for (std::size_t g = 0; g < kGroups; ++g) {
    F p = zero();
#pragma GCC unroll 8
    for (std::size_t s = 0; s < 8; ++s) p = fma(a.words[g][s], b.words[g][s], p);
    sums[g] = add(p, sums[g]);
  }
}

float dot(const float* a, const float* b, std::size_t length) {
  F sums[kGroups];
  for (std::size_t g = 0; g < kGroups; ++g) sums[g] = zero();
  for (std::size_t at = 0; at < length; at += kDotBlock) {
    const std::size_t count = length - at < kDotBlock ? length - at : kDotBlock;
    add_products(BlockWords(a + at, count), BlockWords(b + at, count), sums);
  }
  return sum_of_row(add_groups(sums));
}

float dot_with_itself(const float* x, std::size_t length) {
  F sums[kGroups];
  for (std::size_t g = 0; g < kGroups; ++g) sums[g] = zero();
  for (std::size_t at = 0; at < length; at += kDotBlock) {
    const BlockWords block(x + at, length - at < kDotBlock ? length - at : kDotBlock);
    add_products(block, block, sums);
  }
  return sum_of_row(add_groups(sums));
}

float norm_factor(const float* x, std::size_t width, float eps) {
  return 1.0f / std::sqrt(dot_with_itself(x, width) / static_cast<float>(width) + eps);
}

void rms_norm(const float* x, std::size_t width, const float* weight, float eps, bool round, float* y) {
  const F factor = splat(norm_factor(x, width, eps));
  for_vectors(0, width, y, [=](auto at) PERIGEE_LAMBDA {
    return stored(mul(stored(mul(at(x), factor), round), at(weight)), round);
  });
}

void gated_head_norm(const float* x, const float* gate, std::span<const float> weight, float eps, bool round,
                     float* y) {
  const F factor = splat(norm_factor(x, weight.size(), eps));
  const float* weights = weight.data();
  for_vectors(0, weight.size(), y, [=](auto at) PERIGEE_LAMBDA {
    return stored(mul(mul(mul(at(x), factor), at(weights)), sigmoid_of(at(gate))), round);
  });
}

void add_rows(const float* x, std::size_t count, bool round, float* y) {
  for_vectors(0, count, y, [=](auto at) PERIGEE_LAMBDA { return stored(add(at(y), at(x)), round); });
}

void add_scaled(float scale, const float* x, std::size_t count, float* y) {
  const F scales = splat(scale);
  for_vectors(0, count, y, [=](auto at) PERIGEE_LAMBDA { return fma(scales, at(x), at(y)); });
}

void round_values(std::size_t count, float* x) {
  for_vectors(0, count, x, [=](auto at) PERIGEE_LAMBDA { return rounded(at(x)); });
}

void situ(const float* gate, const float* up, std::size_t count, const SituParameters& parameters, bool round,
          float* y) {
  const F beta = splat(parameters.beta), linear_beta = splat(parameters.linear_beta);
  for_vectors(0, count, y, [=](auto at) PERIGEE_LAMBDA {
    const F g = at(gate);
    const F gated = mul(mul(beta, tanh_of(div(g, beta))), sigmoid_of(g));
    return stored(mul(gated, mul(linear_beta, tanh_of(div(at(up), linear_beta)))), round);
  });
}

void sigmoid_gate(const float* x, const float* gate, std::size_t count, bool round, float* y) {
  for_vectors(0, count, y, [=](auto at) PERIGEE_LAMBDA {
    return stored(mul(at(x), stored(sigmoid_of(at(gate)), round)), round);
  });
}

void mix(std::span<const float* const> sources, const float* weights, std::size_t begin, std::size_t end,
         bool round, float* y) {
  const float* const* first = sources.data();
  const std::size_t count = sources.size();
  for_vectors(begin, end, y, [=](auto at) PERIGEE_LAMBDA {
    F sum = zero();
    for (std::size_t j = 0; j < count; ++j) sum = fma(splat(weights[j]), at(first[j]), sum);
    return stored(sum, round);
  });
}

// Row of the sequence state rows … x rows.
PERIGEE_INLINE const float* convolution_input(const ConvolutionTask& task, std::size_t row) {
  return row < task.state.rows ? task.state[row] : task.x[row - task.state.rows];
}

void convolve(const ConvolutionTask& task, std::size_t begin, std::size_t end) {
  constexpr std::size_t kTapsAtMost = 16;  // weights of a vector of channels that are kept transposed
  for (std::size_t first = begin; first < end; first += kWidth) {
    const std::size_t count = end - first < kWidth ? end - first : kWidth;
    alignas(64) float taps[kTapsAtMost][kWidth] = {};
    const auto tap_weights = [&](std::size_t tap) PERIGEE_LAMBDA {
      for (std::size_t c = 0; c < count; ++c)
        taps[tap % kTapsAtMost][c] = task.weight[(first + c) * task.taps + tap];
      return load(taps[tap % kTapsAtMost]);
    };
    const bool few = task.taps <= kTapsAtMost;
    for (std::size_t tap = 0; few && tap < task.taps; ++tap) tap_weights(tap);
    for (std::size_t t = 0; t < task.x.rows; ++t) {
      for_vectors(first, first + count, task.y[t], [&](auto at) PERIGEE_LAMBDA {
        F sum = zero();
        for (std::size_t tap = 0; tap < task.taps; ++tap) {
          const F weight = few ? load(taps[tap]) : tap_weights(tap);
          sum = fma(weight, at(convolution_input(task, t + tap)), sum);
        }
        return stored(mul(sum, sigmoid_of(sum)), task.round);
      });
    }
  }
  for (std::size_t row = 0; row < task.state.rows; ++row) {  // ascending: read before it is overwritten
    std::memmove(task.state[row] + begin, convolution_input(task, task.x.rows + row) + begin,
                 (end - begin) * sizeof(float));
  }
}
