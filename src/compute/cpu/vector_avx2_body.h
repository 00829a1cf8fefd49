// Vectors of 8 floats for the bodies of the kernels. Included inside an anonymous namespace.
using F = __m256;
using I = __m256i;
using Mask = __m256;

constexpr std::size_t kWidth = 8;
constexpr int kTileRows =
    4;  // rows x tokens: their products, with three activations and a weight, take 16 registers
constexpr int kTileTokens = 3;
constexpr int kRegisters = 16;
constexpr int kFewTokens = 4;  // a tile's stores and loads of weights are worth it from the next one on
constexpr int kFewTokensOfNibbles = 8;

PERIGEE_INLINE F splat(float x) {
  return _mm256_set1_ps(x);
}
PERIGEE_INLINE F zero() {
  return _mm256_setzero_ps();
}
PERIGEE_INLINE F load(const float* from) {
  return _mm256_loadu_ps(from);
}
PERIGEE_INLINE void store(float* to, F x) {
  _mm256_storeu_ps(to, x);
}
PERIGEE_INLINE F add(F a, F b) {
  return _mm256_add_ps(a, b);
}
PERIGEE_INLINE F sub(F a, F b) {
  return _mm256_sub_ps(a, b);
}
PERIGEE_INLINE F mul(F a, F b) {
  return _mm256_mul_ps(a, b);
}
PERIGEE_INLINE F div(F a, F b) {
  return _mm256_div_ps(a, b);
}
PERIGEE_INLINE F fma(F a, F b, F c) {
  return _mm256_fmadd_ps(a, b, c);
}
PERIGEE_INLINE F larger(F a, F b) {
  return _mm256_max_ps(a, b);
}  // b where one is NaN

PERIGEE_INLINE I bits(F x) {
  return _mm256_castps_si256(x);
}
PERIGEE_INLINE F floats(I x) {
  return _mm256_castsi256_ps(x);
}
PERIGEE_INLINE I splat_bits(std::uint32_t x) {
  return _mm256_set1_epi32(static_cast<int>(x));
}
PERIGEE_INLINE I load_bits(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
PERIGEE_INLINE void store_bits(void* to, I x) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), x);
}
// The first words; zeros behind them, where nothing is read.
PERIGEE_INLINE I load_words(const void* from, std::size_t words) {
  const I count = _mm256_set1_epi32(static_cast<int>(words < kWidth ? words : kWidth));
  const I reached = _mm256_cmpgt_epi32(count, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  return _mm256_maskload_epi32(static_cast<const int*>(from), reached);
}
PERIGEE_INLINE I add_bits(I a, I b) {
  return _mm256_add_epi32(a, b);
}
PERIGEE_INLINE I sub_bits(I a, I b) {
  return _mm256_sub_epi32(a, b);
}
PERIGEE_INLINE I and_bits(I a, I b) {
  return _mm256_and_si256(a, b);
}
PERIGEE_INLINE I or_bits(I a, I b) {
  return _mm256_or_si256(a, b);
}
PERIGEE_INLINE I larger_bits(I a, I b) {
  return _mm256_max_epi32(a, b);
}  // signed
PERIGEE_INLINE I smaller_bits(I a, I b) {
  return _mm256_min_epi32(a, b);
}  // signed
PERIGEE_INLINE I smaller_unsigned(I a, I b) {
  return _mm256_min_epu32(a, b);
}
template <int n>
PERIGEE_INLINE I left(I x) {
  return _mm256_slli_epi32(x, n);
}
template <int n>
PERIGEE_INLINE I right(I x) {
  return _mm256_srli_epi32(x, n);
}

PERIGEE_INLINE Mask less(F a, F b) {
  return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
PERIGEE_INLINE Mask is_nan(F x) {
  return _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
}
PERIGEE_INLINE Mask equal_bits(I a, I b) {
  return floats(_mm256_cmpeq_epi32(a, b));
}
PERIGEE_INLINE Mask greater_bits(I a, I b) {
  return floats(_mm256_cmpgt_epi32(a, b));
}  // signed
PERIGEE_INLINE bool any(Mask mask) {
  return _mm256_movemask_ps(mask) != 0;
}
PERIGEE_INLINE F select(Mask mask, F yes, F no) {
  return _mm256_blendv_ps(no, yes, mask);
}

// table[index mod 8] in every lane.
PERIGEE_INLINE F pick(F table, I index) {
  return _mm256_permutevar8x32_ps(table, index);
}

// x, loaded once: without it GCC reads it from memory again for every use, and loads limit the tiles.
template <typename Vector>
PERIGEE_INLINE Vector in_register(Vector x) {
  PERIGEE_PIN(x);
  return x;
}

// 8 bytes (16 bytes) as integers, in order.
PERIGEE_INLINE void widen_8(const std::byte* from, I (&to)[1]) {
  to[0] = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}
PERIGEE_INLINE void widen_16(const std::byte* from, I (&to)[2]) {
  const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  to[0] = _mm256_cvtepu8_epi32(all);
  to[1] = _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(all, all));
}

PERIGEE_INLINE I widen_halves(const std::byte* from) {
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

PERIGEE_INLINE I two_chunks(const std::byte* from, std::size_t stride) {
  const auto* low = reinterpret_cast<const __m128i*>(from);
  const auto* high = reinterpret_cast<const __m128i*>(from + 4 * stride);
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)), _mm_loadu_si128(high), 1);
}

// Lane l of q[k]: word k of the 16 bytes at from + l * stride.
PERIGEE_INLINE void transpose_chunks(const std::byte* from, std::size_t stride, I (&q)[4]) {
  const I a = two_chunks(from, stride);
  const I b = two_chunks(from + stride, stride);
  const I c = two_chunks(from + 2 * stride, stride);
  const I d = two_chunks(from + 3 * stride, stride);
  const I ab_low = _mm256_unpacklo_epi32(a, b), ab_high = _mm256_unpackhi_epi32(a, b);
  const I cd_low = _mm256_unpacklo_epi32(c, d), cd_high = _mm256_unpackhi_epi32(c, d);
  q[0] = _mm256_unpacklo_epi64(ab_low, cd_low);
  q[1] = _mm256_unpackhi_epi64(ab_low, cd_low);
  q[2] = _mm256_unpacklo_epi64(ab_high, cd_high);
  q[3] = _mm256_unpackhi_epi64(ab_high, cd_high);
}

// Lane l: the two words of the 8 bytes at from + 8 l.
PERIGEE_INLINE void split_words(const std::byte* from, I& low, I& high) {
  const F a = floats(load_bits(from));
  const F b = floats(load_bits(from + 32));
  low = _mm256_permute4x64_epi64(bits(_mm256_shuffle_ps(a, b, 0x88)), 0xD8);
  high = _mm256_permute4x64_epi64(bits(_mm256_shuffle_ps(a, b, 0xDD)), 0xD8);
}

// Lane l owns the eight nibbles of the word at from + 4 l; w in the order of the dot product. Two table
// look-ups give both bytes of a bf16 value for 32 nibbles at once: half the instructions of one look-up a
// value.
PERIGEE_INLINE void decode_nibbles(const std::byte* from, F (&w)[8]) {
  const I together = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,  //
                                      0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  const I high_byte = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 0x3F, 0x3F, 0x3F, 0x40, 0x40, 0x40, 0x40, char(0x80), char(0xBF), char(0xBF),
                    char(0xBF), char(0xC0), char(0xC0), char(0xC0), char(0xC0)));
  const I low_byte = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, char(0x80), char(0xC0), 0, 0x40,
                                                               char(0x80), char(0xC0), 0, 0, char(0x80),
                                                               char(0xC0), 0, 0x40, char(0x80), char(0xC0)));
  const I nibble = _mm256_set1_epi8(15);
  const I packed = _mm256_shuffle_epi8(load_bits(from), together);
  const I even = _mm256_and_si256(packed, nibble);
  const I odd = _mm256_and_si256(_mm256_srli_epi16(packed, 4), nibble);
  const I even_high = _mm256_shuffle_epi8(high_byte, even), even_low = _mm256_shuffle_epi8(low_byte, even);
  const I odd_high = _mm256_shuffle_epi8(high_byte, odd), odd_low = _mm256_shuffle_epi8(low_byte, odd);
  const I w02 = _mm256_unpacklo_epi8(even_low, even_high), w46 = _mm256_unpackhi_epi8(even_low, even_high);
  const I w13 = _mm256_unpacklo_epi8(odd_low, odd_high), w57 = _mm256_unpackhi_epi8(odd_low, odd_high);
  const I upper = splat_bits(0xFFFF0000);
  w[0] = floats(left<16>(w46));
  w[1] = floats(left<16>(w02));
  w[2] = floats(left<16>(w57));
  w[3] = floats(left<16>(w13));
  w[4] = floats(and_bits(w46, upper));
  w[5] = floats(and_bits(w02, upper));
  w[6] = floats(and_bits(w57, upper));
  w[7] = floats(and_bits(w13, upper));
}

// The canonical tree over the 32 lanes: 16 and 8 first,
PERIGEE_INLINE F add_groups(const F* lanes) {
  return add(add(lanes[0], lanes[2]), add(lanes[1], lanes[3]));
}
// then 4, 2, 1, of one row
PERIGEE_INLINE float sum_of_row(F half) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
// or of as many rows as a vector has lanes: two rows fold into one vector at each step.
PERIGEE_INLINE F fold_4(F a, F b) {
  return add(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}
PERIGEE_INLINE F fold_2(F a, F b) {
  return add(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xEE));
}
PERIGEE_INLINE F fold_1(F a, F b) {
  return add(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xDD));
}
PERIGEE_INLINE F sum_of_rows(const F (&row)[kWidth]) {
  F every_fourth[4];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) every_fourth[i] = fold_4(row[i], row[i + 4]);
  return fold_1(fold_2(every_fourth[0], every_fourth[1]), fold_2(every_fourth[2], every_fourth[3]));
}
