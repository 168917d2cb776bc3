"""Methods by kind: rsqrt, statistic and normalize; each in a file of its own."""
