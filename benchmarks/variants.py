"""Agents that differ from ours in one thing, for docs/deviations.md: what is that thing worth?

From the root of the repository:

    lcpo compare --agents trpo,benchmarks.variants:trpo_leaks --trace 4 --seeds 8
"""

from __future__ import annotations

from lcpo.agents import AGENTS

_a2c, _clear, _lcpo, _lcpo_p, _pt_dqn, _trpo = (
    AGENTS[name] for name in ("a2c", "clear", "lcpo", "lcpo-p", "pt-dqn", "trpo")
)

trpo_leaks = _trpo.variant("trpo-leaks", faults=("truncation-leaks",))
trpo_slack = _trpo.variant("trpo-slack", faults=("kl-slack",))
trpo_both = _trpo.variant("trpo-both", faults=("truncation-leaks", "kl-slack"))
lcpo_before = _lcpo.variant("lcpo-before", faults=("add-before-sample",))
lcpo_p_long = _lcpo_p.variant("lcpo-p-long", faults=("long-window",))
lcpo_unscaled = _lcpo.variant("lcpo-unscaled", scale_rewards=False)
a2c_unscaled = _a2c.variant("a2c-unscaled", scale_rewards=False)
a2c_unclipped = _a2c.variant("a2c-unclipped", max_grad_norm=1e9)
lcpo_damped_less = _lcpo.variant("lcpo-damped-less", damping=0.01)
lcpo_base_1 = _lcpo.variant("lcpo-base-1", entropy_coef=1.0)
pt_dqn_20k = _pt_dqn.variant("pt-dqn-20k", target_period=20_000)
clear_clones_more = _clear.variant("clear-clones-more", policy_clone_coef=0.1)
clear_repels = _clear.variant("clear-repels", faults=("cloning-repels",))
clear_repels_more = clear_repels.variant("clear-repels-more", policy_clone_coef=0.1)
clear_short = _clear.variant("clear-short", buffer_size=2000)
