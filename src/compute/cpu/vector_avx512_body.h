// Vectors of 16 floats for the bodies of the kernels; the same names as in vector_avx2_body.h. Included
// inside an anonymous namespace.
using F = __m512;
using I = __m512i;
using Mask = __mmask16;

constexpr std::size_t kWidth = 16;
constexpr int kTileRows =
    4;  // rows x tokens: 5 x 4 or 6 x 4 products would fit 32 registers and are no faster
constexpr int kTileTokens = 3;
constexpr int kRegisters = 32;
constexpr int kFewTokens = 4;
constexpr int kFewTokensOfNibbles = 4;

PERIGEE_INLINE F splat(float x) {
  return _mm512_set1_ps(x);
}
PERIGEE_INLINE F zero() {
  return _mm512_setzero_ps();
}
PERIGEE_INLINE F load(const float* from) {
  return _mm512_loadu_ps(from);
}
PERIGEE_INLINE void store(float* to, F x) {
  _mm512_storeu_ps(to, x);
}
PERIGEE_INLINE F add(F a, F b) {
  return _mm512_add_ps(a, b);
}
PERIGEE_INLINE F sub(F a, F b) {
  return _mm512_sub_ps(a, b);
}
PERIGEE_INLINE F mul(F a, F b) {
  return _mm512_mul_ps(a, b);
}
PERIGEE_INLINE F div(F a, F b) {
  return _mm512_div_ps(a, b);
}
PERIGEE_INLINE F fma(F a, F b, F c) {
  return _mm512_fmadd_ps(a, b, c);
}
PERIGEE_INLINE F larger(F a, F b) {
  return _mm512_max_ps(a, b);
}  // b where one is NaN

PERIGEE_INLINE I bits(F x) {
  return _mm512_castps_si512(x);
}
PERIGEE_INLINE F floats(I x) {
  return _mm512_castsi512_ps(x);
}
PERIGEE_INLINE I splat_bits(std::uint32_t x) {
  return _mm512_set1_epi32(static_cast<int>(x));
}
PERIGEE_INLINE I load_bits(const void* from) {
  return _mm512_loadu_si512(from);
}
PERIGEE_INLINE void store_bits(void* to, I x) {
  _mm512_storeu_si512(to, x);
}
// The first words; zeros behind them, where nothing is read.
PERIGEE_INLINE I load_words(const void* from, std::size_t words) {
  return _mm512_maskz_loadu_epi32(static_cast<Mask>(words < kWidth ? (1u << words) - 1 : 0xFFFFu), from);
}
PERIGEE_INLINE I add_bits(I a, I b) {
  return _mm512_add_epi32(a, b);
}
PERIGEE_INLINE I sub_bits(I a, I b) {
  return _mm512_sub_epi32(a, b);
}
PERIGEE_INLINE I and_bits(I a, I b) {
  return _mm512_and_si512(a, b);
}
PERIGEE_INLINE I or_bits(I a, I b) {
  return _mm512_or_si512(a, b);
}
PERIGEE_INLINE I larger_bits(I a, I b) {
  return _mm512_max_epi32(a, b);
}  // signed
PERIGEE_INLINE I smaller_bits(I a, I b) {
  return _mm512_min_epi32(a, b);
}  // signed
PERIGEE_INLINE I smaller_unsigned(I a, I b) {
  return _mm512_min_epu32(a, b);
}
template <int n>
PERIGEE_INLINE I left(I x) {
  return _mm512_slli_epi32(x, n);
}
template <int n>
PERIGEE_INLINE I right(I x) {
  return _mm512_srli_epi32(x, n);
}

PERIGEE_INLINE Mask less(F a, F b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
PERIGEE_INLINE Mask is_nan(F x) {
  return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
}
PERIGEE_INLINE Mask equal_bits(I a, I b) {
  return _mm512_cmpeq_epi32_mask(a, b);
}
PERIGEE_INLINE Mask greater_bits(I a, I b) {
  return _mm512_cmpgt_epi32_mask(a, b);
}  // signed
PERIGEE_INLINE bool any(Mask mask) {
  return mask != 0;
}
PERIGEE_INLINE F select(Mask mask, F yes, F no) {
  return _mm512_mask_blend_ps(mask, no, yes);
}

// table[index mod 16] in every lane.
PERIGEE_INLINE F pick(F table, I index) {
  return _mm512_permutexvar_ps(index, table);
}

// x, loaded once: without it GCC reads it from memory again for every use, and loads limit the tiles.
template <typename Vector>
PERIGEE_INLINE Vector in_register(Vector x) {
  PERIGEE_PIN(x);
  return x;
}

// 8 bytes (16 bytes) as integers, in order.
PERIGEE_INLINE void widen_8(const std::byte* from, I (&to)[1]) {
  to[0] = _mm512_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}
PERIGEE_INLINE void widen_16(const std::byte* from, I (&to)[1]) {
  to[0] = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

PERIGEE_INLINE I widen_halves(const std::byte* from) {
  return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

PERIGEE_INLINE __m128i chunk(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
PERIGEE_INLINE I four_chunks(const std::byte* from, std::size_t stride) {
  I all = _mm512_castsi128_si512(chunk(from));
  all = _mm512_inserti32x4(all, chunk(from + 4 * stride), 1);
  all = _mm512_inserti32x4(all, chunk(from + 8 * stride), 2);
  return _mm512_inserti32x4(all, chunk(from + 12 * stride), 3);
}

PERIGEE_INLINE void transpose_words(I a, I b, I c, I d, I (&q)[4]) {
  const I ab_low = _mm512_unpacklo_epi32(a, b), ab_high = _mm512_unpackhi_epi32(a, b);
  const I cd_low = _mm512_unpacklo_epi32(c, d), cd_high = _mm512_unpackhi_epi32(c, d);
  q[0] = _mm512_unpacklo_epi64(ab_low, cd_low);
  q[1] = _mm512_unpackhi_epi64(ab_low, cd_low);
  q[2] = _mm512_unpacklo_epi64(ab_high, cd_high);
  q[3] = _mm512_unpackhi_epi64(ab_high, cd_high);
}

// Lane l of q[k]: word k of the 16 bytes at from + l * stride.
PERIGEE_INLINE void transpose_chunks(const std::byte* from, std::size_t stride, I (&q)[4]) {
  transpose_words(four_chunks(from, stride), four_chunks(from + stride, stride),
                  four_chunks(from + 2 * stride, stride), four_chunks(from + 3 * stride, stride), q);
}

// Lane l: the two words of the 8 bytes at from + 8 l.
PERIGEE_INLINE void split_words(const std::byte* from, I& low, I& high) {
  const I a = load_bits(from);
  const I b = load_bits(from + 64);
  const I even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const I odd = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  low = _mm512_permutex2var_epi32(a, even, b);
  high = _mm512_permutex2var_epi32(a, odd, b);
}

// Lane l owns the eight nibbles of the word at from + 4 l; w in the order of the dot product.
PERIGEE_INLINE void decode_nibbles(const std::byte* from, F (&w)[8]) {
  const F values = _mm512_set_ps(-6, -4, -3, -2, -1.5f, -1, -0.5f, -0.0f, 6, 4, 3, 2, 1.5f, 1, 0.5f, 0);
  const I packed = load_bits(from);
  w[0] = pick(values, right<16>(packed));
  w[1] = pick(values, packed);
  w[2] = pick(values, right<20>(packed));
  w[3] = pick(values, right<4>(packed));
  w[4] = pick(values, right<24>(packed));
  w[5] = pick(values, right<8>(packed));
  w[6] = pick(values, right<28>(packed));
  w[7] = pick(values, right<12>(packed));
}

// The canonical tree over the 32 lanes: 16 first,
PERIGEE_INLINE F add_groups(const F* lanes) {
  return add(lanes[0], lanes[1]);
}
// then 8, 4, 2, 1, of one row
PERIGEE_INLINE float sum_of_row(F all) {
  const __m256 upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(all), 1));
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), upper);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
// or of as many rows as a vector has lanes: two rows fold into one vector at each step.
template <int chunks>
PERIGEE_INLINE F choose_chunks(F a, F b) {
  return floats(_mm512_shuffle_i32x4(bits(a), bits(b), chunks));
}
PERIGEE_INLINE F fold_8(F a, F b) {
  return add(choose_chunks<0x44>(a, b), choose_chunks<0xEE>(a, b));
}
PERIGEE_INLINE F fold_4(F a, F b) {
  return add(choose_chunks<0x88>(a, b), choose_chunks<0xDD>(a, b));
}
PERIGEE_INLINE F fold_2(F a, F b) {
  return add(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xEE));
}
PERIGEE_INLINE F fold_1(F a, F b) {
  return add(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xDD));
}
PERIGEE_INLINE F sum_of_rows(const F (&row)[kWidth]) {
  F every_fourth[4];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i)
    every_fourth[i] = fold_4(fold_8(row[i], row[i + 4]), fold_8(row[i + 8], row[i + 12]));
  return fold_1(fold_2(every_fourth[0], every_fourth[1]), fold_2(every_fourth[2], every_fourth[3]));
}
