// The two addends of x, for a kernel with a fused residual add (driver::HAS_RESIDUAL).
//
// They lie in a folder of their own, since a folder of vectors holds nothing but vectors:
//   a.hex, b.hex    rows x dim words of x's width, in the text form of x.hex; the sum of each
//                   pair, in x's overflow mode, is the word of x.hex
//   manifest.json   {"format": "approxnorm-residual", "format_version": 1,
//                    "digest": the vectors' digest, "x_sha256": the SHA-256 of their x.hex,
//                    "a": {"file": "a.hex", "sha256": ...}, "b": {"file": "b.hex", "sha256": ...}}
#ifndef APPROX_BENCH_RESIDUAL_HPP
#define APPROX_BENCH_RESIDUAL_HPP

#include <string>

#include "fields.hpp"
#include "vectors.hpp"
#include "words.hpp"

namespace bench {

struct Residual {
    Codes a, b;  // rows x dim codes
};

inline Codes read_addend(const VectorSet &set, const std::string &folder, const Fields &entry,
                         const std::string &name) {
    entry.require_text("file", name);
    const driver::Signal &x = driver::SIGNALS[set.x];
    return read_words(join(folder, name), set.words(), entry.sha256("sha256"), x.width,
                      x.is_signed);
}

inline Residual read_residual(const std::string &folder, const VectorSet &set) {
    const std::string path = join(folder, "manifest.json");
    const json::Value root = read_json(path);
    const Fields manifest(root, path, "");
    manifest.require_text("format", "approxnorm-residual");
    manifest.require_integer("format_version", 1);
    manifest.require_text("digest", set.digest);
    manifest.require_text("x_sha256", set.x_sha256);
    Residual residual;
    residual.a = read_addend(set, folder, manifest.object("a"), "a.hex");
    residual.b = read_addend(set, folder, manifest.object("b"), "b.hex");
    return residual;
}

}  // namespace bench

#endif
