"""The straggler task: a proxy in front of servers chooses when to hedge (docs/envs/straggler.md).

Every 500 ms an action sets the timeout after which a request without an answer is sent to a second
server. The reward is minus the 95th percentile of the latencies. The context is the workload: slow
averages of the rate and the size of requests, which the observation holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from lcpo.config import config, static
from lcpo.contexts import files
from lcpo.defaults import Defaults
from lcpo.envs.base import Advance
from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.straggler import workloads
from lcpo.straggler.jobs import Jobs, PoissonJobs, workload_jobs
from lcpo.types import ContextSlice, Guard, Spec

if TYPE_CHECKING:
    from lcpo.straggler.worlds import StragglerWorlds

TIMEOUTS_MS = (3.0, 10.0, 30.0, 60.0, 100.0, 300.0, 600.0, 1000.0, -1.0)
"""By action; the last one never hedges."""
NEVER = len(TIMEOUTS_MS) - 1
WINDOW_MS = 500.0
POISSON = "poisson"  # the workload without a trend: independent arrivals at one rate
POISSON_MEANS = (20.0, 80.0, 1.5)  # its rate, size and size_cv where none are given
BUCKET_MS = 300_000.0  # requests whose latencies are reported together, by arrival
EPISODE = 3600  # windows, half an hour: length of an episode with a random start
BEFORE = (
    "rate (4 windows)", "service time (4 windows)", "rate (largest of 4)",
    "service time (largest of 4)", "offered load", "rate (5 s)", "service time (5 s)",
)  # fmt: skip
"""Names of the features before the context."""
CONTEXT = ("rate (50 s)", "service time (50 s)")
AFTER = ("rate (500 s)", "service time (500 s)", "safety rule")
"""Names of the features after the context; the last one tells whether the safety rule holds."""
NUM_COMMON = len(BEFORE) + len(CONTEXT) + len(AFTER)
"""Entries beside those of the servers."""

READINGS = (
    "arrived", "hedged", "first_ms", "work_ms", "unsafe", "served", "service_ms",
    *(f"slower_{int(ms)}" for ms in TIMEOUTS_MS[:NEVER]),
    "buckets", "p95", "p99", "p999",
)  # fmt: skip
"""What a step tells of its window beside the observation (docs/envs/straggler.md)."""
PERCENTILES = (0.95, 0.99, 0.999)  # of a bucket: the last readings

EVERYTHING, QUEUES, PROXY = "everything", "queues", "proxy"
"""What is observed. Service times of all first copies; or what a proxy such as Envoy can know: the
declared sizes of the requests that arrive, and the backends' queue lengths."""
SERVICE, SIZE = "service time", "size"  # in names of features; what a proxy sees is the second

FUTURE_SIZES = "future-sizes"
"""Fault: rate and size are those of the requests that *arrived*, with the service times that they
are going to have and the gap to the next arrival, none of which a proxy can know."""
LATE_WINDOWS = "late-windows"
"""Fault: a window continues until a request is answered, and the clock stops at its last event."""
IDLE_TERMINAL = "idle-terminal"
"""Fault: a window after which all queues are empty counts as the end of an episode, so that the
value of what follows is taken for 0. Nothing is reset."""
WHOLE_TRACE_SCALES = "whole-trace-scales"
"""Fault: features are scaled by means of the whole trace, the future included."""
FAULTS = (FUTURE_SIZES, LATE_WINDOWS, IDLE_TERMINAL, WHOLE_TRACE_SCALES)

Values = dict[str, Any]
_ALL: Values = {"hidden": (32, 16), "gamma": 0.9, "scale_rewards": False}
_RATES: Values = {"learning_rate": 1e-3, "value_learning_rate": 1e-3}
_ON: Values = {
    **_ALL, "rollout_length": 4608, "lam": 0.95, "value_learning_rate": 1e-3,
    "max_grad_norm": 1.0,
}  # fmt: skip
_A2C: Values = {**_ON, "learning_rate": 1e-3}
# D^2 > 28 in two dimensions, the paper's LCPO Cons; Med has 12 and Agg 10 for the 14.
_ANCHORS: Values = {
    "detector": "mahalanobis", "sigma": 14**0.5, "recent_batches": 5, "entropy_coef": 0.01,
}  # fmt: skip
# LCPO+ with its own limit and entropy floor commits to hedging before it has met an overload, which
# hedging then prolongs (docs/agents/lcpo-plus.md). So it keeps those of LCPO here.
_SLOW: Values = {"c_0": 0.0, "c_anchor": 1e-4, "entropy_floor": False, "entropy_coef": 0.01}
_REPLAY: Values = {**_ALL, "rollout_length": 128, "random_steps": 128_000}
_Q: Values = {**_REPLAY, "epsilon_steps": 640_000}
_SAC: Values = {**_REPLAY, "target_rate": 0.005, "entropy_coef": 0.01}
_PRESCIENT: Values = {"rollout_length": 512, "random_steps": 512_000}

SETTINGS: dict[str, Values] = {
    "a2c": _A2C,
    "a2c-entropy": {"entropy_coef": 0.01},  # LCPO's
    "trpo": {**_ON, "rollout_length": 10_240},
    "ppo": {**_A2C, "minibatches": 9},
    "ppo-entropy": {"entropy_coef": 0.01},  # LCPO-P's
    "lcpo": {**_A2C, **_ANCHORS},
    "lcpo-plus": {**_A2C, **_SLOW},
    "lcpo-plus-ood": _ANCHORS,
    "lcpo-p": {**_A2C, **_ANCHORS, "minibatches": 9},
    "clear": {
        **_ALL, **_RATES, "rollout_length": 4608, "max_grad_norm": 1.0,
    },
    "ddqn": _Q,
    "bfdqn": _Q,
    "pt-dqn": {
        **_Q, "target_period": 1280, "permanent_period": 12_800,
    },
    "sac": {**_SAC, **_RATES},
    "online-ewc": {**_SAC, **_RATES},
    "mbcd": {**_SAC, **_RATES, "threshold": 300_000.0},
    "mbpo": {**_SAC, **_RATES},
    "sliding-ogd": _SAC,  # its rates are lengths of steps
    # Random for 1000 updates; DDQN's epsilon falls in the 5000 after them.
    "prescient-a2c": {"rollout_length": 512},
    "prescient-trpo": {"rollout_length": 8192},
    "prescient-ddqn": {**_PRESCIENT, "epsilon_steps": 2_560_000},
    "prescient-sac": _PRESCIENT,
}  # fmt: skip
"""Config values by agent, for the paper's 20.7M windows, mostly those of the published code
(docs/envs/straggler.md). The environment scales its rewards, and gamma is per window."""


@config
class Straggler:
    """Send a late request a second time, before the tail of latencies grows and not too often."""

    defaults: ClassVar[Defaults] = Defaults(microseconds=9.9, agents=SETTINGS)
    measures: ClassVar[str] = "lcpo.straggler.latency:MEASURES"

    num_servers: int = static(10, "servers, each with a queue", low=1, high=1000)
    workload: str = static(
        POISSON, "where requests come from: poisson, workload-1, workload-2, or a file"
    )
    shorten: float = static(1.0, "how many times faster a pass of the workload is", low=1.0)
    rate: float | None = static(
        None, "requests per second, on average; none: the workload's own", low=1e-3
    )
    size: float | None = static(
        None, "mean service time if not slow, ms; none: the workload's own", low=1e-3
    )
    size_cv: float | None = static(
        None, "standard deviation of the sizes over their mean; none: the workload's own", low=0.0
    )
    slow_share: float = static(0.1, "share of copies that are slow", low=0.0, high=1.0)
    slow_factor: float = static(10.0, "service time of a slow copy over that of others", low=1.0)
    slow_ms: float = static(
        0.0, "how long servers are slow, with all their copies; 0: each copy independently", low=0.0
    )
    cancel: bool = static(False, "the other copy of an answered request is withdrawn")
    price: float = static(0.0, "what a second copy costs, in ms of latency", low=0.0)
    reward_ms: float = static(1600.0, "latency that costs 1, ms", low=1e-3)
    observe: str = static(
        EVERYTHING,
        "service times of first copies, or what a proxy sees: declared sizes of arrivals",
        choices=(EVERYTHING, PROXY),
    )
    balance: str = static(
        QUEUES,
        "requests join the shortest queue, or the one in which a proxy sees the fewest copies",
        choices=(QUEUES, PROXY),
    )
    max_copies: int = static(20_000, "copies in the cluster; a run stops if there are more", low=2)
    faults: tuple[str, ...] = static((), "published faults to repeat", choices=FAULTS)

    @property
    def spec(self) -> Spec:
        servers = 2 * self.num_servers
        return Spec(
            obs_size=servers + NUM_COMMON,
            context=ContextSlice(servers + len(BEFORE), channels=len(CONTEXT), lags=1),
            num_actions=(len(TIMEOUTS_MS),),
            elements=(self.num_servers, 2),
            guard=Guard(entry=servers + NUM_COMMON - 1, action=(NEVER,)),
            readings=READINGS,
        )

    @property
    def feature_names(self) -> tuple[str, ...]:
        servers = range(self.num_servers)
        copies = [f"{name}[{s}]" for s in servers for name in ("copies", "mean copies")]
        return (*copies, *self._named(BEFORE), *self._named(AFTER))

    @property
    def context_names(self) -> tuple[str, ...]:
        return self._named(CONTEXT)

    def _named(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Names of features, by what is observed."""
        if self.observe == EVERYTHING:
            return names
        return tuple(name.replace(SERVICE, SIZE) for name in names)

    @property
    def advance(self) -> Advance:
        return "own"

    @property
    def jobs(self) -> Jobs:
        """The requests of its worlds."""
        if self.observe == PROXY and FUTURE_SIZES in self.faults:
            raise InputError(
                f"observe = {PROXY!r} with the fault {FUTURE_SIZES!r}: both say which sizes are "
                "observed; leave one of them out"
            )
        known = (POISSON, *workloads.WORKLOADS)
        if self.workload not in known and not files.is_file(self.workload):
            text = unknown("workload", self.workload, known)
            raise InputError(f"{text} (or a .csv, .npy or .npz file)")
        if self.workload != POISSON:
            given = {"rate": self.rate, "size": self.size, "cv": self.size_cv}
            stamp = files.stamp(self.workload)
            return workload_jobs(self.workload, stamp, shorten=self.shorten, **given)
        if self.shorten != 1.0:
            raise InputError(
                f"shorten = {self.shorten:g}, but the workload {POISSON!r} has no pass that could "
                "be shortened: leave it out, or name another workload"
            )
        means = zip((self.rate, self.size, self.size_cv), POISSON_MEANS, strict=True)
        return PoissonJobs(*(usual if given is None else given for given, usual in means))

    def open(
        self, num_worlds: int, seeds: Sequence[int], threads: int | None = None
    ) -> StragglerWorlds:
        from lcpo.straggler.worlds import StragglerWorlds  # which imports tasks

        return StragglerWorlds(self, self.jobs, num_worlds, seeds, threads)

    def open_anywhere(
        self, num_worlds: int, seeds: Sequence[int], threads: int | None = None
    ) -> StragglerWorlds:
        """Clusters that begin at random places of the workload, at another one every half hour."""
        from lcpo.straggler.worlds import StragglerWorlds

        return StragglerWorlds(self, self.jobs, num_worlds, seeds, threads, anywhere=True)
