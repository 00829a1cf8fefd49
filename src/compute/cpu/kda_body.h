// Kimi Delta Attention of one head, token by token. Value columns are independent of each other, so a vector
// of them keeps the order of the sums over the key dimension. Included inside an anonymous namespace, after
// rows_body.h.
constexpr float kKdaNormEps = 1e-6f;    // of the q and k normalisation; not rms_norm_eps
constexpr std::size_t kKdaVectors = 8;  // value columns worked on at once, in vectors

struct KdaStep {
  float* q;  // [dim] each
  float* k;
  float* decay;
  float beta;
};

// `vectors` vectors of value columns of one token, from column j on.
template <std::size_t vectors>
PERIGEE_INLINE void kda_columns(const KdaStep& step, std::size_t dim, const float* v, float* s, float* out,
                                bool round) {
  F predicted[vectors], read[vectors];
#pragma GCC unroll 8
  for (std::size_t c = 0; c < vectors; ++c) predicted[c] = read[c] = zero();
  for (std::size_t i = 0; i < dim; ++i) {
    float* row = s + i * dim;
    const F decay = splat(step.decay[i]), k = splat(step.k[i]);
#pragma GCC unroll 8
    for (std::size_t c = 0; c < vectors; ++c) {
      const F state = mul(load(row + c * kWidth), decay);
      store(row + c * kWidth, state);
      predicted[c] = fma(k, state, predicted[c]);
    }
  }
#pragma GCC unroll 8
  for (std::size_t c = 0; c < vectors; ++c)
    predicted[c] = mul(splat(step.beta), sub(load(v + c * kWidth), predicted[c]));
  for (std::size_t i = 0; i < dim; ++i) {
    float* row = s + i * dim;
    const F k = splat(step.k[i]), q = splat(step.q[i]);
#pragma GCC unroll 8
    for (std::size_t c = 0; c < vectors; ++c) {
      const F state = fma(k, predicted[c], load(row + c * kWidth));
      store(row + c * kWidth, state);
      read[c] = fma(q, state, read[c]);
    }
  }
#pragma GCC unroll 8
  for (std::size_t c = 0; c < vectors; ++c) store(out + c * kWidth, stored(read[c], round));
}

// Columns that do not fill a vector.
PERIGEE_INLINE void kda_column(const KdaStep& step, std::size_t dim, float v, float* s, float* out,
                               bool round) {
  float predicted = 0, read = 0;
  for (std::size_t i = 0; i < dim; ++i) {
    s[i * dim] *= step.decay[i];
    predicted = std::fma(step.k[i], s[i * dim], predicted);
  }
  const float u = step.beta * (v - predicted);
  for (std::size_t i = 0; i < dim; ++i) {
    s[i * dim] = std::fma(step.k[i], u, s[i * dim]);
    read = std::fma(step.q[i], s[i * dim], read);
  }
  *out = round ? round_to_bf16(read) : read;
}

PERIGEE_INLINE void kda_normalise(const float* x, std::size_t length, float scale, float* y) {
  const F factor = splat(scale / std::sqrt(dot_with_itself(x, length) + kKdaNormEps));
  for_vectors(0, length, y, [=](auto at) PERIGEE_LAMBDA { return mul(at(x), factor); });
}

void kda_head(const KdaTask& task, std::size_t head, float* scratch) {
  const KdaParameters& p = *task.parameters;
  const std::size_t dim = p.head_dim, first = head * dim;
  const F rate = splat(exact_exp(p.a_log[head])), bound = splat(p.gate_lower_bound);
  const float query_scale = 1.0f / std::sqrt(static_cast<float>(dim));
  KdaStep step{scratch, scratch + dim, scratch + 2 * dim, 0};
  float* s = task.state[first];
  for (std::size_t t = 0; t < task.q.rows; ++t) {
    kda_normalise(task.q[t] + first, dim, query_scale, step.q);
    kda_normalise(task.k[t] + first, dim, 1.0f, step.k);
    const float* g = task.g[t] + first;
    const float* bias = p.dt_bias + first;
    for_vectors(0, dim, step.decay, [=](auto at) PERIGEE_LAMBDA {
      return exp_of(mul(bound, sigmoid_of(mul(rate, add(at(g), at(bias))))));
    });
    step.beta = exact_sigmoid(task.b[t][head]);
    const float* v = task.v[t] + first;
    float* out = task.y[t] + first;
    std::size_t j = 0;
    for (; j + kKdaVectors * kWidth <= dim; j += kKdaVectors * kWidth)
      kda_columns<kKdaVectors>(step, dim, v + j, s + j, out + j, task.round);
    for (; j + kWidth <= dim; j += kWidth) kda_columns<1>(step, dim, v + j, s + j, out + j, task.round);
    for (; j < dim; ++j) kda_column(step, dim, v[j], s + j, out + j, task.round);
  }
}
