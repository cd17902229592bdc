"""Flags with which the tests compile: fast to compile, slow to run."""

from __future__ import annotations

from importlib.metadata import version

HASTE = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
if version("jaxlib").startswith("0.10."):  # others do not know them, and end a process that says so
    HASTE += " --xla_cpu_use_fusion_emitters=false"  # compiles three times as fast
    HASTE += " --xla_cpu_parallel_codegen_split_count=1"  # a fifth less work for small programs
