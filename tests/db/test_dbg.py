import tests.db.test_promise_faults as t
import pytest
from hypothesis import Phase, settings, HealthCheck
from hypothesis.stateful import run_state_machine_as_test
@pytest.mark.usefixtures("sqlite_database")
def test_x():
    td=t.Story.teardown
    def teardown(self):
        try: td(self)
        finally: print("SEEN",self.seen,self.changed,self.clock.at)
    def dump(self):
        from tensorant_app.db.session import reading
        import sqlalchemy as sa
        with reading() as s:
            for r in s.scalars(sa.select(t.Promise)): print(r)
    def td2(self):
        print("START TD", self.clock.at); dump(self)
        try: td(self)
        except AssertionError: dump(self); raise
    t.Story.teardown=td2
    run_state_machine_as_test(t.Story, settings=settings(max_examples=300, stateful_step_count=25, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)))
