// numerics/elementary.cpp, a vector at a time: the same operations in the same order in every lane, special
// cases by selection. Included inside an anonymous namespace.
constexpr float kLog2E = 1.44269504f;
constexpr float kLn2High = 0x1.62e400p-1f;
constexpr float kLn2Low = 0x1.7f7d1cp-20f;
constexpr float kRoundShift = 0x1.8p23f;
constexpr float kExpTail[] = {1.991789177e-04f, 1.394613297e-03f, 8.333264850e-03f,
                              4.166626930e-02f, 1.666666716e-01f, 5.000000000e-01f};
constexpr float kTanhTail[] = {2.147536958e-03f,  -8.182673715e-03f, 2.170296758e-02f,
                               -5.394720286e-02f, 1.333321035e-01f,  -3.333333135e-01f};

PERIGEE_INLINE F polynomial(const float (&coefficients)[6], F x) {
  F y = splat(coefficients[0]);
#pragma GCC unroll 5
  for (int i = 1; i < 6; ++i) y = fma(y, x, splat(coefficients[i]));
  return y;
}

PERIGEE_INLINE F magnitude(F x) {
  return floats(and_bits(bits(x), splat_bits(0x7FFFFFFF)));
}

// 2^exponent, a normal number.
PERIGEE_INLINE F power_of_two(I exponent) {
  return floats(left<23>(add_bits(exponent, splat_bits(127))));
}

PERIGEE_INLINE F exp_of(F x) {
  const F shifted = fma(x, splat(kLog2E), splat(kRoundShift));
  const F n = sub(shifted, splat(kRoundShift));
  const F r = fma(n, splat(-kLn2Low), fma(n, splat(-kLn2High), x));
  const F power = add(fma(mul(r, r), polynomial(kExpTail, r), r), splat(1));
  // n again, as an integer. Any two halves that sum to it give the same product: the first multiplication is
  // exact. 512 keeps the sum positive for the logical shift.
  const I exponent = sub_bits(bits(shifted), bits(splat(kRoundShift)));
  const I half = sub_bits(right<1>(add_bits(exponent, splat_bits(512))), splat_bits(256));
  F y = mul(mul(power, power_of_two(half)), power_of_two(sub_bits(exponent, half)));
  y = select(less(splat(88.8f), x), floats(splat_bits(0x7F800000)), y);
  y = select(less(x, splat(-104.0f)), zero(), y);
  return select(is_nan(x), x, y);
}

PERIGEE_INLINE F sigmoid_of(F x) {
  const F e = exp_of(floats(or_bits(bits(x), splat_bits(0x80000000))));
  return div(select(less(x, zero()), e, splat(1)), add(splat(1), e));
}

PERIGEE_INLINE F tanh_of(F x) {
  const F size = magnitude(x);
  const F square = mul(x, x);
  const F small = fma(mul(x, square), polynomial(kTanhTail, square), x);
  const F y = sub(splat(1), div(splat(2), add(exp_of(mul(splat(2), size)), splat(1))));
  const F large = floats(or_bits(bits(magnitude(y)), and_bits(bits(x), splat_bits(0x80000000))));
  return select(less(size, splat(0.625f)), small, large);
}

// Rounds to bf16 and back; every NaN becomes 0x7FC0.
PERIGEE_INLINE F rounded(F x) {
  const I tie = and_bits(right<16>(bits(x)), splat_bits(1));
  const I sum = add_bits(bits(x), add_bits(tie, splat_bits(0x7FFF)));
  return select(is_nan(x), floats(splat_bits(0x7FC00000)), floats(and_bits(sum, splat_bits(0xFFFF0000))));
}

PERIGEE_INLINE F stored(F x, bool round) {
  return round ? rounded(x) : x;
}
