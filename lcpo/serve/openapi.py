"""The description of all calls, made from the types of their bodies and answers."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import msgspec

from lcpo import __version__
from lcpo.serve import calls

PLACE = "/openapi.json"


class Described(NamedTuple):
    """A call: what it does, its body and its answer."""

    summary: str
    body: type[msgspec.Struct]
    answer: type[msgspec.Struct]
    errors: tuple[int, ...] = (400, 401, 403, 409, 413, 415, 421, 503)


CALLS = {
    "/v1/act": Described("Decide.", calls.Act, calls.Decided),
    "/v1/observe": Described(
        "Report what a decision led to.", calls.Observe, calls.Observed,
        (400, 401, 403, 404, 409, 413, 415, 421, 503),
    ),
    "/v1/step": Described("Observe, then decide, for several streams.", calls.Step, calls.Steps),
    "/v1/discard": Described(
        "Do not learn from decisions.", calls.Which, calls.Discarded,
        (400, 401, 403, 404, 409, 413, 415, 421, 503),
    ),
    "/v1/end": Described(
        "A stream leaves.", calls.Stream, calls.Discarded,
        (400, 401, 403, 404, 409, 413, 415, 421, 503),
    ),
    "/v1/mode": Described("Change the mode.", calls.Mode, calls.InMode),
    "/v1/rollback": Described(
        "Return to an earlier version of the policy.", calls.Rollback, calls.RolledBack
    ),
    "/v1/checkpoint": Described("Save everything.", calls.Nothing, calls.Saved),
}  # fmt: skip
OTHERS = {
    "/v1/status": ("Everything that a status page shows.", "application/json"),
    "/livez": ("Whether the process answers.", "text/plain"),
    "/readyz": ("Whether it can decide; with ?verbose, what it waits for.", "text/plain"),
    "/healthz": ("The same as /readyz.", "text/plain"),
    "/metrics": ("Metrics for Prometheus.", "text/plain"),
    PLACE: ("This document.", "application/json"),
    "/": ("The status page.", "text/html"),
}
MEANINGS = {
    400: "malformed or invalid", 401: "the token is missing or wrong", 403: "another origin",
    404: "there is no such id or stream", 409: "contradicts what has happened before",
    413: "the body is too large", 415: "the body is not JSON", 421: "another Host",
    503: "not ready, stopping, or the log cannot be written",
}  # fmt: skip


@functools.cache
def document() -> bytes:
    """OpenAPI 3.1, as JSON."""
    kinds = [kind for call in CALLS.values() for kind in (call.body, call.answer)]
    schemas, parts = msgspec.json.schema_components(
        [*kinds, calls.Failed], ref_template="#/components/schemas/{name}"
    )
    for name, kind in (("observe", "Observed"), ("act", "Decided")):
        either = [{"$ref": f"#/components/schemas/{each}"} for each in (kind, "Failed")]
        parts["Stepped"]["properties"][name] = {"anyOf": either}
    paths: dict[str, Any] = {}
    for number, (path, call) in enumerate(CALLS.items()):
        paths[path] = {
            "post": {
                "summary": call.summary,
                "operationId": path.rpartition("/")[2],
                "requestBody": {"required": True, "content": _json(schemas[2 * number])},
                "responses": {
                    "200": {"description": "done", "content": _json(schemas[2 * number + 1])},
                    **{str(status): _error(status, schemas[-1]) for status in call.errors},
                },
            }
        }
    for path, (summary, kind) in OTHERS.items():
        answers = {"200": {"description": "found", "content": {kind: {}}}}
        paths[path] = {"get": {"summary": summary, "responses": answers}}
    found = {
        "openapi": "3.1.0",
        "info": {"title": "lcpo serve", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": parts,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }
    return msgspec.json.encode(found)


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _error(status: int, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": MEANINGS[status], "content": _json(schema)}
