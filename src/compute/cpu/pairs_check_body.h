// Whether dot_pairs adds as the canonical order wants: fma(even, even, fma(odd, odd, sum)). Intel's and AMD's
// processors do; it is asked at start all the same, because one that does not would give other bits in
// silence. Included inside an anonymous namespace, after pairs_body.h.
bool check_dot_pairs() {
  constexpr int kRounds = 2000;
  std::uint32_t state = 1;
  // Random bf16 numbers of either sign, 2^-8 … 2^8, and sometimes zero.
  const auto next = [&state] {
    state = state * 1664525u + 1013904223u;
    const std::uint32_t random = state >> 8;
    if (random % 16 == 0) return std::uint32_t{0};
    return ((random & 1) << 31) | ((119 + (random >> 1) % 16) << 23) | (((random >> 5) & 0x7F) << 16);
  };
  for (int round = 0; round < kRounds; ++round) {
    alignas(64) std::uint32_t w[kWidth], x[kWidth], sum[kWidth];
    for (std::size_t l = 0; l < kWidth; ++l) {
      w[l] = next() | next() >> 16;
      x[l] = next() | next() >> 16;
      sum[l] = next();
      if (sum[l] != 0) sum[l] |= next() >> 16;  // all 24 bits; zero does not become subnormal
    }
    const F found = dot_pairs(floats(load_bits(sum)), load_bits(w), load_bits(x));
    const F expected =
        PairGradualForm<WeightFormat::kBf16>::step(load_bits(w), load_bits(x), floats(load_bits(sum)));
    alignas(64) std::uint32_t a[kWidth], b[kWidth];
    store(reinterpret_cast<float*>(a), found);
    store(reinterpret_cast<float*>(b), expected);
    if (std::memcmp(a, b, sizeof a) != 0) return false;
  }
  return true;
}
