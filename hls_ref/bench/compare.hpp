// What the kernel made against what the vectors say, and the first difference.
#ifndef APPROX_BENCH_COMPARE_HPP
#define APPROX_BENCH_COMPARE_HPP

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "vectors.hpp"

namespace bench {

struct Difference {
    int row, signal, index;
    bool has_got;  // false: the kernel never reported it
    long long got, want;

    // By row, within a row in order of computation, within a signal by element.
    bool before(const Difference &other) const {
        if (row != other.row) return row < other.row;
        if (signal != other.signal) return signal < other.signal;
        return index < other.index;
    }
};

// Counts of codes and of those that differ.
struct Tally {
    long long codes = 0, wrong = 0;
};

class Comparison {
  public:
    explicit Comparison(const VectorSet &set) : set_(set) {}

    // A signal's stream of rows x dim codes.
    void stream(int signal, const Codes &got, Tally &tally) {
        for (int row = 0; row < set_.rows; ++row) {
            for (int i = 0; i < set_.dim; ++i) {
                const std::size_t word = static_cast<std::size_t>(row) * set_.dim + i;
                code(row, signal, i, got[word], tally);
            }
        }
    }

    void code(int row, int signal, int index, long long got, Tally &tally) {
        const long long want = wanted(row, signal, index);
        ++tally.codes;
        if (got == want) return;
        ++tally.wrong;
        note({row, signal, index, true, got, want});
    }

    void missing(int row, int signal, int index) {
        ++never_reported;
        note({row, signal, index, false, 0, wanted(row, signal, index)});
    }

    bool passed() const { return !found_; }

    // The first difference as one line; nothing if there is none.
    void print_first() const {
        if (!found_) return;
        const bool is_element = driver::SIGNALS[first_.signal].level == 'e';
        const std::string element = is_element ? std::to_string(first_.index) : "-";
        const std::string lane = is_element ? std::to_string(first_.index % driver::LANES) : "-";
        const std::string got = first_.has_got ? std::to_string(first_.got) : "none";
        std::printf("MISMATCH vectors=%s class=%s row=%d lane=%s element=%s signal=%s got=%s"
                    " want=%lld digest=%s\n",
                    set_.folder.c_str(), set_.class_of(first_.row).c_str(), first_.row,
                    lane.c_str(), element.c_str(), driver::SIGNALS[first_.signal].name,
                    got.c_str(), first_.want, set_.digest.c_str());
    }

    void print_summary() const {
        if (passed()) {
            std::printf("PASS: rows=%d codes=%lld signals=%d digest=%s vectors=%s\n", set_.rows,
                        outputs.codes, traced_signals, set_.digest.c_str(), set_.folder.c_str());
            return;
        }
        std::printf("FAIL: %lld of %lld output codes differ", outputs.wrong, outputs.codes);
        if (sums.codes > 0) {
            std::printf("; %lld of %lld sums differ", sums.wrong, sums.codes);
        }
        if (traced_signals > 0) {
            std::printf("; %lld of %lld traced codes differ, %lld were never reported",
                        traced.wrong, traced.codes, never_reported);
        }
        std::printf("\n");
    }

    Tally outputs, sums, traced;
    long long never_reported = 0;
    int traced_signals = 0;

  private:
    const VectorSet &set_;
    bool found_ = false;
    Difference first_{0, 0, 0, false, 0, 0};

    long long wanted(int row, int signal, int index) const {
        const std::size_t a_row = static_cast<std::size_t>(set_.words_a_row(signal));
        return set_.codes[signal][row * a_row + index];
    }

    void note(const Difference &difference) {
        if (found_ && !difference.before(first_)) return;
        found_ = true;
        first_ = difference;
    }
};

}  // namespace bench

#endif
