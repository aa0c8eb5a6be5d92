"""Importing this package knows every table."""

from tensorant_app.db import accounts as accounts
from tensorant_app.db import audit as audit
from tensorant_app.db import connections as connections
from tensorant_app.db import datasets as datasets
from tensorant_app.db import evaluations as evaluations
from tensorant_app.db import machines as machines
from tensorant_app.db import offers as offers
from tensorant_app.db import organizations as organizations
from tensorant_app.db import projects as projects
from tensorant_app.db import promise as promise
from tensorant_app.db import runs as runs
from tensorant_app.db import safety as safety
from tensorant_app.db import sessions as sessions
from tensorant_app.db import spend as spend
