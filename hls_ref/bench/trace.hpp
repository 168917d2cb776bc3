// The named signals that a kernel built with -DAPPROX_TRACE reports while it runs.
#ifndef APPROX_BENCH_TRACE_HPP
#define APPROX_BENCH_TRACE_HPP

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "compare.hpp"

namespace bench {

// A report that no kernel of these signals makes: the kernel and its driver do not fit each other.
struct TraceError : std::runtime_error {
    explicit TraceError(const std::string &what) : std::runtime_error(what) {}
};

class Trace {
  public:
    Trace(const VectorSet &set, Comparison &comparison)
        : set_(set), comparison_(comparison), seen_(set.codes.size()) {
        for (std::size_t i = 0; i < seen_.size(); ++i) {
            seen_[i].assign(set.codes[i].size(), false);
            if (is_due(static_cast<int>(i))) ++comparison.traced_signals;
        }
    }

    void begin_row() {
        if (++row_ >= set_.rows) {
            throw TraceError("the kernel traced more than the " + std::to_string(set_.rows) +
                             " rows it was given");
        }
    }

    void report(int signal, int index, long long code) {
        check(signal, index);
        const std::size_t a_row = static_cast<std::size_t>(set_.words_a_row(signal));
        seen_[signal][row_ * a_row + index] = true;
        comparison_.code(row_, signal, index, code, comparison_.traced);
    }

    // Every code that was never reported is a difference.
    void finish() {
        for (int signal = 0; signal < driver::SIGNAL_COUNT; ++signal) {
            if (is_due(signal)) finish(signal);
        }
    }

  private:
    const VectorSet &set_;
    Comparison &comparison_;
    std::vector<std::vector<bool>> seen_;  // by signal and word
    int row_ = -1;

    static bool is_due(int signal) {
        return driver::SIGNALS[signal].level != 'c' && !is_stream(driver::SIGNALS[signal].name);
    }

    void check(int signal, int index) const {
        if (row_ < 0) throw TraceError("the kernel traced a signal before its first row");
        if (signal < 0 || signal >= driver::SIGNAL_COUNT || driver::SIGNALS[signal].level == 'c') {
            throw TraceError("the kernel traced the signal number " + std::to_string(signal) +
                             ", which is no element or row signal");
        }
        if (index < 0 || index >= set_.words_a_row(signal)) {
            throw TraceError(std::string("the kernel traced element ") + std::to_string(index) +
                             " of " + driver::SIGNALS[signal].name + "; allowed: below " +
                             std::to_string(set_.words_a_row(signal)));
        }
    }

    void finish(int signal) {
        const int a_row = set_.words_a_row(signal);
        const std::vector<bool> &seen = seen_[signal];
        for (std::size_t word = 0; word < seen.size(); ++word) {
            if (seen[word]) continue;
            comparison_.missing(static_cast<int>(word / a_row), signal,
                                static_cast<int>(word % a_row));
        }
    }
};

}  // namespace bench

#endif
