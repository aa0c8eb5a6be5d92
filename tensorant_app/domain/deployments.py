"""What a deployment can be: an adapter, or the base, answering requests on a machine."""

from __future__ import annotations

from enum import StrEnum

from tensorant_app.domain.steps import Cause, Lifecycle, step


class DeploymentState(StrEnum):
    QUEUED = "queued"
    LAUNCHING = "launching"
    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


_S = DeploymentState
_UP = frozenset({_S.LAUNCHING, _S.STARTING, _S.SERVING})

LIFECYCLE = Lifecycle(
    noun="deployment",
    states=DeploymentState,
    steps={
        "create": step((), _S.QUEUED, Cause.MEMBER),
        "ask": step({_S.QUEUED}, _S.LAUNCHING),
        "start": step({_S.LAUNCHING}, _S.STARTING),
        "serve": step({_S.STARTING}, _S.SERVING),
        "stop": step({_S.QUEUED, *_UP}, _S.STOPPING, Cause.MEMBER, Cause.OPERATOR, Cause.WORKER),
        "end": step({_S.STOPPING}, _S.STOPPED),
        "lose": step(_UP, _S.QUEUED),
        "fail": step({_S.QUEUED, *_UP}, _S.FAILED),
    },
    final=frozenset({_S.STOPPED, _S.FAILED}),
)
