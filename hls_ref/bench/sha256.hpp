// SHA-256 (FIPS 180-4).
#ifndef APPROX_BENCH_SHA256_HPP
#define APPROX_BENCH_SHA256_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace bench {

class Sha256 {
  public:
    void add(const char *bytes, std::size_t count) {
        length_ += count;
        while (count > 0) {
            const std::size_t room = BLOCK - used_;
            const std::size_t part = count < room ? count : room;
            std::memcpy(block_ + used_, bytes, part);
            used_ += part;
            bytes += part;
            count -= part;
            if (used_ == BLOCK) {
                mix();
                used_ = 0;
            }
        }
    }

    // The hash as 64 lower-case hex digits. Nothing can be added after it.
    std::string hex() {
        const std::uint64_t bits = length_ * 8;
        const char one = '\x80', zero = '\0';
        add(&one, 1);
        while (used_ != BLOCK - 8) add(&zero, 1);
        char size[8];
        for (int i = 0; i < 8; ++i) size[i] = static_cast<char>((bits >> (56 - 8 * i)) & 0xff);
        add(size, 8);
        std::string text;
        for (std::uint32_t word : state_) {
            for (int i = 28; i >= 0; i -= 4) text += "0123456789abcdef"[(word >> i) & 15];
        }
        return text;
    }

  private:
    static const std::size_t BLOCK = 64;

    std::uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned char block_[BLOCK] = {};
    std::size_t used_ = 0;
    std::uint64_t length_ = 0;

    static std::uint32_t rotate(std::uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

    void mix() {
        static const std::uint32_t K[64] = {
            0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
            0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
            0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
            0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
            0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
            0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
            0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
            0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
            0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
            0xc67178f2};
        std::uint32_t w[64];
        for (int i = 0; i < 16; ++i) {
            const unsigned char *p = block_ + 4 * i;
            w[i] = std::uint32_t(p[0]) << 24 | std::uint32_t(p[1]) << 16 | std::uint32_t(p[2]) << 8 |
                   std::uint32_t(p[3]);
        }
        for (int i = 16; i < 64; ++i) {
            const std::uint32_t a = w[i - 15], b = w[i - 2];
            w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ (a >> 3)) + w[i - 7] +
                   (rotate(b, 17) ^ rotate(b, 19) ^ (b >> 10));
        }
        std::uint32_t s[8];
        std::memcpy(s, state_, sizeof s);
        for (int i = 0; i < 64; ++i) {
            const std::uint32_t sum1 = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
            const std::uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
            const std::uint32_t t1 = s[7] + sum1 + choice + K[i] + w[i];
            const std::uint32_t sum0 = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
            const std::uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
            for (int j = 7; j > 0; --j) s[j] = s[j - 1];
            s[4] += t1;
            s[0] = t1 + sum0 + majority;
        }
        for (int i = 0; i < 8; ++i) state_[i] += s[i];
    }
};

}  // namespace bench

#endif
