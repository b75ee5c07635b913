"""A load benchmark against real processes: ``make bench BENCH=load``. See docs/performance.md."""
