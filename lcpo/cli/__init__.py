"""The command `lcpo`: `main` finds the command, one file per group of commands runs it."""

HELP = {
    "train": "Train an agent with several seeds, and print a summary table.",
    "compare": "Train several agents on one environment and trace: tables and learning curves.",
    "tune": "Search settings of an agent for your problem, and judge them on unseen seeds.",
    "suggest": "Suggest an agent and settings to start with, for a number of steps.",
    "reproduce": "Run an experiment of the paper: tables and figures next to the paper's numbers.",
    "list": "List agents, environments, detectors, traces and experiments.",
    "check-env": "Run a few episodes of an environment, and report problems.",
    "trace": "Draw context traces, print their statistics, write repaired copies of files.",
    "calibrate": "Suggest LCPO's sigma for a trace or an environment.",
    "report": "Write a folder's tables, figures, runs and commands into one HTML page.",
    "import": "Import results of other code as runs of a folder (format: docs/import.md).",
    "export": "Write the records of all runs in a folder into one Parquet or CSV table.",
    "evaluate": "Evaluate frozen policies on other seeds or traces, and print a table.",
    "watch": "Render a frozen policy and its context as a GIF.",
    "serve": "Serve a live agent over HTTP, with metrics and a status page.",
    "replay": "Rebuild a live agent from its log, and check that it is the same.",
    "live-report": "Report on a live agent: rewards, switchback difference, guard, drift.",
    "bench": "Measure the speed of this machine.",
    "completion": "Print a script that makes Tab complete commands, options and names.",
}
"""What each command does, in one line. Here, so that `lcpo --help` imports no command."""
