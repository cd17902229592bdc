"""Hedged requests through a real proxy; `lcpo serve` sets the timeout (docs/live/hedging.md).

    python -m examples.hedging            the demo, from the checkout (`make demo-live`)
    python -m examples.hedging.train      trains the policy that the demo starts with

Modules, from the bottom up:

    workload      what is requested when, and which copies are slow
    http          a few lines of HTTP/1.1 on asyncio, and calls of ports that tell something
    backends      a process: servers with a queue each
    load          a process: sends the requests to all lanes, and notes their latencies
    envoy         the configuration of Envoy, and how to start it
    proxy         a process: a small proxy where there is no Envoy
    seen          what proxy and backends show: access log, counters, queues
    observation   the observation of `lcpo.straggler`, from what was seen
    plan          what was set up in the simulator: policy, scales, rules
    rules         controllers that learn nothing, and the safety rule
    agent         the controller that asks `lcpo serve`
    lanes         starts everything; one lane for each controller, with the same requests
    live          the loop that runs twice a second
    check         what was acknowledged, compared with the log
    measure       percentiles, intervals, table
    picture       the figure
    report        what a run leaves behind
    demo          all of it in order
"""
