"""Statistics, tables, figures and the experiments of the paper."""
