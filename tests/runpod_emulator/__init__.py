"""A stand-in for RunPod: REST API v2 as far as the console uses it, and the S3 side of its network volumes.

It keeps its own books, so that a test can ask what *really* happened: how often a name was asked for, what is alive,
what it costs. It is strict where the provider is (closed bodies, 401 before 422, data centers enforced) and misbehaves
only when told to.

In a test, over real sockets:

    with Emulator(tmp_path) as e:
        e.api_url, e.s3_url            # http://127.0.0.1:…/v2 and http://127.0.0.1:…
        e.key, e.s3_keys               # API key; (access key, secret). Region of S3: e.volume.dc, bucket: e.volume.id
        e.clock.advance(minutes=2)     # a virtual clock; `clock=RealClock()` for the computer's own
        e.faults.arm(Fault.ANSWER_LOST)                       # the next create call
        e.faults.arm(Fault.HIDDEN, seconds=90, name="tune-1") # the Pod of that name
        e.account.alive(), e.account.creates("tune-1"), e.bill()   # the books; `e.world.calls`: every request

In process, with no socket and no thread (the fault campaign):

    world = World(folder, clock=VirtualClock(), start=Script().start)
    account = world.add_account()
    httpx.Client(base_url=world.api_url, transport=EmulatorTransport(world))   # a lost answer raises ReadTimeout
    attach_s3(boto3_client, world)                                             # the same for S3
    account.create(body), account.delete(pod_id), world.tick()                 # or call the state machine itself

From a shell, with a folder that is still there next time:

    python -m tests.runpod_emulator --folder /tmp/runpod --port 4020 --s3-port 4021

What runs in a Pod is `start`: `Idle` (nothing), `Script(…).start` (a trainer's files, by the clock, no torch), or
`RealTrainer(python).start` (the image's boot and the real trainer, in processes on the folder of the volume).
Faults are listed in `faults.py`, each with its effect; `faults.scatter(seed, n)` arms n of them drawn by a seed.
"""

from tests.runpod_emulator.account import Account as Account
from tests.runpod_emulator.catalog import Catalog as Catalog
from tests.runpod_emulator.clock import RealClock as RealClock
from tests.runpod_emulator.clock import VirtualClock as VirtualClock
from tests.runpod_emulator.emulator import Emulator as Emulator
from tests.runpod_emulator.faults import Fault as Fault
from tests.runpod_emulator.keys import Access as Access
from tests.runpod_emulator.keys import Key as Key
from tests.runpod_emulator.pods import Pace as Pace
from tests.runpod_emulator.pods import Pod as Pod
from tests.runpod_emulator.processes import RealTrainer as RealTrainer
from tests.runpod_emulator.simulated import Script as Script
from tests.runpod_emulator.transport import EmulatorTransport as EmulatorTransport
from tests.runpod_emulator.transport import attach_s3 as attach_s3
from tests.runpod_emulator.workers import Container as Container
from tests.runpod_emulator.workers import Exit as Exit
from tests.runpod_emulator.workers import Idle as Idle
from tests.runpod_emulator.world import World as World
