/* SPDX-License-Identifier: MIT
 * Digests of byte i = i mod 251, as the published test vectors use it; the values are those of b3sum 1.8.1.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "blake3.h"
#include "blake3_lanes.c" /* in place of the library's: the forms of this machine, each for itself */
#include "hashing.h"
#include "support.h"
#include "thin.h"

static const struct {
    size_t len;
    const char *digest;
} vectors[] = {
    {0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"},
    {1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"},
    {2, "7b7015bb92cf0b318037702a6cdd81dee41224f734684c2c122cd6359cb1ee63"},
    {63, "e9bc37a594daad83be9470df7f7b3798297c3d834ce80ba85d6e207627b7db7b"},
    {64, "4eed7141ea4a5cd4b788606bd23f46e212af9cacebacdc7d1f4c6dc7f2511b98"},
    {65, "de1e5fa0be70df6d2be8fffd0e99ceaa8eb6e8c93a63f2d8d1c30ecb6b263dee"},
    {127, "d81293fda863f008c09e92fc382a81f5a0b4a1251cba1634016a0f86a6bd640d"},
    {128, "f17e570564b26578c33bb7f44643f539624b05df1a76c81f30acd548c44b45ef"},
    {129, "683aaae9f3c5ba37eaaf072aed0f9e30bac0865137bae68b1fde4ca2aebdcb12"},
    {1023, "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11"},
    {1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"},
    {1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"},
    {2047, "58830fbf51a4423c573b164471690570e544cfe793bead46225664796b4b1467"},
    {2048, "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a"},
    {2049, "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b6879522563030"},
    {3072, "b98cb0ff3623be03326b373de6b9095218513e64f1ee2edd2525c7ad1e5cffd2"},
    {3073, "7124b49501012f81cc7f11ca069ec9226cecb8a2c850cfe644e327d22d3e1cd3"},
    {4096, "015094013f57a5277b59d8475c0501042c0b642e531b0a1c8f58d2163229e969"},
    {4097, "9b4052b38f1c5fc8b1f9ff7ac7b27cd242487b3d890d15c96a1c25b8aa0fb995"},
    {5120, "9cadc15fed8b5d854562b26a9536d9707cadeda9b143978f319ab34230535833"},
    {5121, "628bd2cb2004694adaab7bbd778a25df25c47b9d4155a55f8fbd79f2fe154cff"},
    {6144, "3e2e5b74e048f3add6d21faab3f83aa44d3b2278afb83b80b3c35164ebeca205"},
    {6145, "f1323a8631446cc50536a9f705ee5cb619424d46887f3c376c695b70e0f0507f"},
    {7168, "61da957ec2499a95d6b8023e2b0e604ec7f6b50e80a9678b89d2628e99ada77a"},
    {7169, "a003fc7a51754a9b3c7fae0367ab3d782dccf28855a03d435f8cfe74605e7817"},
    {8192, "aae792484c8efe4f19e2ca7d371d8c467ffb10748d8a5a1ae579948f718a2a63"},
    {8193, "bab6c09cb8ce8cf459261398d2e7aef35700bf488116ceb94a36d0f5f1b7bc3b"},
    {9216, "e5ef79624045ef3e98fd23342e61d7eb965997b32928f9de591cd0d465a223fb"},
    {9217, "d42c90aa30bee83ecb52ad31b685d566145649496764878873598cef582d4d8f"},
    {16384, "f875d6646de28985646f34ee13be9a576fd515f76b5b0a26bb324735041ddde4"},
    {16385, "1dabe216be2578830263b049de1639f39f05a4da616b9b78c7a5e4e41662fd1f"},
    {31744, "62b6960e1a44bcc1eb1a611a8d6235b6b4b78f32e7abc4fb4c6cdcce94895c47"},
    {65536, "68d647e619a930e7b1082f74f334b0c65a315725569bdc123f0ee11881717bfe"},
    {102400, "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085"},
    {131072, "306baba93b1a393cbd35172837c98b0f59a41f64e1b2682ae102d8b2534b9e1c"},
    {131073, "f837d4254d24ba3d50fe3743d46e4af6db5f5d6ab0469197d94e7ba1e906c4d8"},
    {524287, "f73390a9be0df966471208839aeb0402a93a45e056fa02998b6eee97bf96a04e"},
    {524288, "b467afa334cd7dedd76e3a9a4b0e8a5ed278713f2f4e220a682aa30c7fcd140b"},
    {524289, "7978ac1ee80f7f7c115d25551f9c54cb3a2974cfcb8f5ab93de706350d143286"},
    {1048575, "f32b849d19684c18c138cf13e29dbadc776f4bc2a56b477680ef546b39ac3f71"},
    {1048576, "74cb441fd087764ca9c3694da742ebe30cbeb3060a17009ca81825c7a8d10343"},
    {1048577, "2f053cd7472cf0cd2f9adaf45c1180255b91b9a865404a63671a0ee5f792ed33"},
    {1572864, "c72bbcb34ed10468da2fc468838f311043ff2980067273ee0d14b140b2884603"},
    {1572865, "77390ab1a693d862825f9c7af5f2a3a25efccca80627dd5c62090e22d641118e"},
    {2097152, "96fbba37478c16b7614c890b26832f67b541cf14e69ab8ebf0c739818588c9f1"},
    {4194305, "0460893a0170917e0d568bb27c0287984d4f7e9d59eafb95e6fb3c01ec611eab"},
};

enum { N = sizeof vectors / sizeof vectors[0], MOST = 4194305 };

static unsigned char *input(void)
{
    unsigned char *p = malloc(MOST);
    ck_assert_ptr_nonnull(p);
    for (size_t i = 0; i < MOST; i++)
        p[i] = (unsigned char)(i % 251);
    return p;
}

static void expect(const unsigned char digest[32], int i)
{
    char hex[65];
    thin_hex(digest, hex);
    ck_assert_msg(strcmp(hex, vectors[i].digest) == 0, "%zu bytes: %s", vectors[i].len, hex);
}

START_TEST(at_once)
{
    unsigned char *p = input(), digest[32];
    blake3_hash(p, vectors[_i].len, digest);
    expect(digest, _i);
    free(p);
}
END_TEST

/* In steps of odd sizes, at every alignment. */
START_TEST(in_steps)
{
    static const size_t steps[] = {1, 7, 64, 1000, 1024, 8191, 8192, 65537};
    unsigned char *p = input(), digest[32];
    for (size_t s = 0; s < sizeof steps / sizeof steps[0]; s++) {
        struct blake3 b;
        if (steps[s] < 64 && vectors[_i].len > 200000)
            continue;
        blake3_init(&b);
        for (size_t at = 0; at < vectors[_i].len; at += steps[s])
            blake3_update(&b, p + at, vectors[_i].len - at < steps[s] ? vectors[_i].len - at : steps[s]);
        blake3_final(&b, digest);
        expect(digest, _i);
    }
    free(p);
}
END_TEST

/* Whole pieces in any order, then the rest. */
START_TEST(in_pieces)
{
    unsigned char *p = input(), digest[32];
    size_t n = vectors[_i].len / BLAKE3_PIECE;
    struct blake3_pair *pairs = calloc(n + 1, sizeof *pairs);
    struct blake3 b;
    ck_assert_ptr_nonnull(pairs);
    for (size_t i = n; i > 0; i--)
        blake3_piece(p + (i - 1) * BLAKE3_PIECE, i - 1, &pairs[i - 1]);
    blake3_init(&b);
    for (size_t i = 0; i < n; i++)
        blake3_add_piece(&b, &pairs[i]);
    blake3_update(&b, p + n * BLAKE3_PIECE, vectors[_i].len - n * BLAKE3_PIECE);
    blake3_final(&b, digest);
    expect(digest, _i);
    free(pairs);
    free(p);
}
END_TEST

/* The digest of one whole piece, by this form alone. */
static void expect_piece(const struct form *f, const unsigned char *p)
{
    static uint32_t values[BLAKE3_PIECE / BLAKE3_CHUNK][8];
    unsigned char digest[32];
    struct blake3_pair pair;
    struct blake3 b;
    unsigned n = BLAKE3_PIECE / BLAKE3_CHUNK;
    for (unsigned i = 0; i < n; i += BLAKE3_LANES)
        f->chunks(p + (size_t)i * BLAKE3_CHUNK, i, values + i);
    while ((n /= 2) > 1)
        for (unsigned i = 0; i < n;
             i += BLAKE3_LANES) /* the last ones are joined with others that do not count */
            f->parents(values + (size_t)2 * i, values + i);
    memcpy(pair.half, values, sizeof pair.half);
    blake3_init(&b);
    blake3_add_piece(&b, &pair);
    blake3_final(&b, digest);
    for (int i = 0; i < N; i++)
        if (vectors[i].len == BLAKE3_PIECE)
            expect(digest, i);
}

/* Counters that carry into their upper word, for which nobody publishes a digest of a size to be hashed here.
 */
static void expect_like_plain(const struct form *f, const unsigned char *p)
{
    uint32_t want[BLAKE3_LANES][8], got[BLAKE3_LANES][8];
    for (uint64_t counter = 0; counter < 1ull << 40; counter += 0xFFFFFFFB) {
        plain.chunks(p + counter % 1000, counter, want);
        f->chunks(p + counter % 1000, counter, got);
        ck_assert_mem_eq(got, want, sizeof want);
    }
}

START_TEST(forms)
{
    unsigned char *p = input();
    expect_piece(&plain, p);
#ifdef HAVE_WIDER
    if (__builtin_cpu_supports("avx2")) {
        expect_piece(&avx2, p);
        expect_like_plain(&avx2, p);
    }
    if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) {
        expect_piece(&avx512, p);
        expect_like_plain(&avx512, p);
    }
#endif
    free(p);
}
END_TEST

/* All of them as ranges of one file, by several threads. */
START_TEST(ranges)
{
    unsigned char *p = input();
    struct memfile f = memfile_new(p, MOST);
    struct hash_range v[N];
    struct hash_control control = {0};
    struct source *s = NULL;
    uint64_t sum = 0;
    ck_assert_int_eq(source_open(f.path, SOURCE_MAP, &s, NULL), 0);
    for (size_t i = 0; i < N; i++) {
        v[i] = (struct hash_range){.source = s, .len = vectors[i].len};
        sum += vectors[i].len;
    }
    ck_assert_int_eq(hash_ranges(v, N, &control), 0);
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(v[i].err, 0);
        expect(v[i].digest, i);
    }
    ck_assert_uint_eq(atomic_load(&control.bytes), sum);
    v[0] = (struct hash_range){.source = s, .off = MOST, .len = 1}; /* beyond the end */
    ck_assert_int_eq(hash_ranges(v, 1, NULL), 0);
    ck_assert_int_eq(v[0].err, -EIO);
    control.stop = true;
    ck_assert_int_eq(hash_ranges(v, N, &control), -EINTR);
    ck_assert_int_eq(v[N - 1].err, -EINTR);
    source_free(s);
    free(p);
}
END_TEST

static void tests(TCase *tc)
{
    tcase_add_loop_test(tc, at_once, 0, N);
    tcase_add_loop_test(tc, in_steps, 0, N);
    tcase_add_loop_test(tc, in_pieces, 0, N);
    tcase_add_test(tc, forms);
    tcase_add_test(tc, ranges);
}

int main(void)
{
    return unit_run("blake3", tests);
}
