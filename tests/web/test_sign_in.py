"""Signing in and out, and every way in that must stay shut."""

from __future__ import annotations

import json
from urllib.parse import unquote

import pytest
from httpx import Response
from sqlmodel import select
from starlette.testclient import TestClient

from tensorant_app.db.audit import AuditEntry
from tensorant_app.db.organizations import Member, Organization, User
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.db.sessions import OneTimeLink, SignIn, SignInThrottle
from tensorant_app.domain.members import Role, operator
from tensorant_app.domain.sign_in import LinkKind
from tensorant_app.services import links, sessions
from tensorant_app.settings import get_settings
from tests.conftest import Clock
from tests.people import PASSWORD, Person, make_person, sign_in


def post_sign_in(client: TestClient, email: str, password: str = PASSWORD, **fields: str) -> Response:
    return client.post("/api/sign-in", data={"email": email, "password": password, **fields})


def said(response: Response) -> str:
    """The sentence that the next page will show."""
    cookie = next(c for c in response.headers.get_list("set-cookie") if c.startswith("tensorant-said="))
    words = json.loads(unquote(cookie.split(";")[0].removeprefix("tensorant-said=").strip('"')))
    return str(words.get("error") or words.get("done"))


def is_in(client: TestClient, cookies: str | None = None) -> bool:
    headers = {"cookie": cookies} if cookies is not None else {}
    return client.get("/api/session", headers=headers).status_code == 200


@pytest.fixture
def owner(client: TestClient) -> Person:
    return make_person(Role.OWNER)


class TestTheRightPassword:
    def test_opens_a_session_in_a_cookie_that_no_script_can_read(self, client: TestClient, owner: Person) -> None:
        response = post_sign_in(client, owner.email.upper(), next="/account?tab=1")

        assert (response.status_code, response.headers["location"]) == (303, "/account?tab=1")
        cookie = next(c for c in response.headers.get_list("set-cookie") if "Max-Age=2592000" in c)
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert "Path=/" in cookie
        assert is_in(client)

    def test_is_kept_only_as_a_hash(self, client: TestClient, owner: Person) -> None:
        post_sign_in(client, owner.email)

        token = client.cookies[sessions.cookie_name()]
        with reading() as session:
            stored = [row.token_sha256 for row in session.exec(select(SignIn))]
        assert token not in stored
        assert sessions.digest(token) in stored

    def test_is_written_into_the_audit_trail(self, client: TestClient, owner: Person) -> None:
        post_sign_in(client, owner.email, "wrong password")
        post_sign_in(client, owner.email)

        with reading() as session:
            actions = [e.action for e in session.exec(select(AuditEntry).where(AuditEntry.who == owner.email))]
        assert actions == ["sessions.open", "sessions.refuse", "sessions.open"]

    @pytest.mark.parametrize(
        "onward", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "evil", "/a\nb"]
    )
    def test_leads_nowhere_but_here(self, client: TestClient, owner: Person, onward: str) -> None:
        assert post_sign_in(client, owner.email, next=onward).headers["location"] == "/"

    def test_under_https_comes_in_a_host_cookie(
        self, client: TestClient, owner: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TENSORANT_ORIGIN", "https://tune.example.org")
        get_settings.cache_clear()

        response = client.post(
            "/api/sign-in",
            data={"email": owner.email, "password": PASSWORD},
            headers={"origin": "https://tune.example.org", "host": "tune.example.org"},
        )

        cookie = response.headers.get_list("set-cookie")[0]
        assert cookie.startswith("__Host-tensorant=")
        assert "Secure" in cookie
        assert "Domain" not in cookie


class TestTheWrongPassword:
    @pytest.mark.parametrize("email", ["nobody@example.com", "", "' OR 1=1 --"])
    def test_says_the_same_for_everybody(self, client: TestClient, owner: Person, email: str) -> None:
        known, unknown = post_sign_in(client, owner.email, "wrong"), post_sign_in(client, email, "wrong")

        assert said(known) == said(unknown) == "E-mail address and password do not go together."
        assert not is_in(client)

    def test_five_times_makes_the_account_wait_even_for_the_right_one(
        self, client: TestClient, owner: Person, clock: Clock
    ) -> None:
        for _ in range(5):
            post_sign_in(client, owner.email, "wrong")

        assert said(post_sign_in(client, owner.email)) == "Too many wrong passwords. Try again in 5 seconds."
        clock.advance(seconds=6)
        assert post_sign_in(client, owner.email).headers["location"] == "/"

    def test_makes_each_wait_longer_than_the_one_before(self, client: TestClient, owner: Person, clock: Clock) -> None:
        waits = []
        for _ in range(9):
            post_sign_in(client, owner.email, "wrong")
            with reading() as session:
                row = session.exec(select(SignInThrottle)).first()
            assert row is not None
            waits.append((row.blocked_until - clock.at).total_seconds())
            clock.at = row.blocked_until

        assert waits == [0, 0, 0, 0, 5, 10, 20, 40, 80]

    def test_is_forgotten_after_the_right_one(self, client: TestClient, owner: Person) -> None:
        for _ in range(4):
            post_sign_in(client, owner.email, "wrong")
        post_sign_in(client, owner.email)
        for _ in range(4):
            post_sign_in(client, owner.email, "wrong")

        assert post_sign_in(client, owner.email).headers["location"] == "/"

    def test_for_many_accounts_makes_the_address_wait(self, client: TestClient, owner: Person) -> None:
        for number in range(30):
            post_sign_in(client, f"guess{number}@example.com", "wrong")

        assert said(post_sign_in(client, owner.email)).startswith("Too many wrong passwords.")


class TestOtherSites:
    ROUTES = (
        "/api/sign-in",
        "/api/sign-out",
        "/api/sign-out-everywhere",
        "/api/password",
        "/api/set-up",
        "/api/new-password",
        "/api/uploads",
    )

    @pytest.mark.parametrize("route", ROUTES)
    @pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:9999", "null", None])
    def test_cannot_post(self, client: TestClient, owner: Person, route: str, origin: str | None) -> None:
        client.headers.pop("origin")
        headers = {"cookie": owner.cookies} | ({"origin": origin} if origin else {})

        response = client.post(route, data={"email": owner.email, "password": PASSWORD}, headers=headers)

        assert response.status_code == 403
        assert "not from the console itself" in response.json()["error"]
        assert is_in(client, owner.cookies)

    def test_cannot_borrow_our_address_by_another_name(self, client: TestClient, owner: Person) -> None:
        response = client.get("/", headers={"host": "evil.example", "cookie": owner.cookies})

        assert response.status_code == 421

    def test_cannot_frame_a_page_and_learn_nothing_from_it(self, client: TestClient, owner: Person) -> None:
        headers = client.get("/", headers={"cookie": owner.cookies}).headers

        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe-eval" not in headers["content-security-policy"]
        assert "script-src 'self';" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


class TestPages:
    @pytest.mark.parametrize("path", ["/", "/account", "/projects/1/runs/2?tab=log", "/nowhere"])
    def test_lead_to_the_sign_in_and_back(self, client: TestClient, path: str) -> None:
        response = client.get(path)

        assert response.status_code == 303
        assert response.headers["location"].startswith("/sign-in?next=/")

    @pytest.mark.parametrize("path", ["/_upload", "/_upload/x", "/_event/?EIO=4&transport=polling", "/_all_routes"])
    def test_of_reflex_that_we_do_not_use_are_not_there(self, client: TestClient, owner: Person, path: str) -> None:
        assert client.get(path, headers={"cookie": owner.cookies}).status_code == 404
        assert client.post(path, headers={"cookie": owner.cookies}).status_code == 404

    def test_are_open_where_one_signs_in(self, client: TestClient) -> None:
        for path in ("/sign-in", "/sign-in/", "/set-up", "/new-password", "/assets/entry-1.js", "/tensorant.css"):
            assert client.get(path).status_code == 200


class TestSessions:
    def test_end_in_this_browser_alone(self, client: TestClient, owner: Person) -> None:
        other = sign_in(owner.email)

        client.post("/api/sign-out", headers={"cookie": owner.cookies})

        assert not is_in(client, owner.cookies)
        assert is_in(client, other)

    def test_end_everywhere(self, client: TestClient, owner: Person) -> None:
        others, stranger = [sign_in(owner.email) for _ in range(3)], make_person()

        client.post("/api/sign-out-everywhere", headers={"cookie": others[0]})

        assert not any(is_in(client, cookies) for cookies in [owner.cookies, *others])
        assert is_in(client, stranger.cookies)

    def test_end_after_thirty_days(self, client: TestClient, owner: Person, clock: Clock) -> None:
        for _ in range(29):
            clock.advance(hours=24)
            assert is_in(client, owner.cookies)
        clock.advance(hours=25)

        assert not is_in(client, owner.cookies)

    def test_end_after_a_week_without_use(self, client: TestClient, owner: Person, clock: Clock) -> None:
        clock.advance(hours=7 * 24 + 1)

        assert not is_in(client, owner.cookies)

    def test_know_the_role_of_this_moment(self, client: TestClient, owner: Person) -> None:
        with unit_of_work() as session:
            session.exec(select(Member).where(Member.id == owner.caller.member_id)).one().role = Role.VIEWER

        assert client.get("/api/session", headers={"cookie": owner.cookies}).json()["role"] == "viewer"

    def test_end_with_the_membership(self, client: TestClient, owner: Person) -> None:
        with unit_of_work() as session:
            for row in session.exec(select(AuditEntry).where(AuditEntry.member_id == owner.caller.member_id)):
                session.delete(row)
            session.flush()
            session.delete(session.exec(select(Member).where(Member.id == owner.caller.member_id)).one())

        assert not is_in(client, owner.cookies)

    @pytest.mark.parametrize("cookies", ["", "x", "=;;=", "tensorant=1", "a" * 5000, 'tensorant-x="\\"'])
    def test_are_not_made_of_anything_a_client_invents(self, client: TestClient, cookies: str) -> None:
        assert not is_in(client, cookies)

    def test_of_others_end_when_the_password_changes(self, client: TestClient, owner: Person) -> None:
        other = sign_in(owner.email)
        form = {"old": PASSWORD, "password": "quite another one"}

        wrong = client.post("/api/password", data=form | {"old": "wrong"}, headers={"cookie": owner.cookies})
        client.post("/api/password", data=form, headers={"cookie": owner.cookies})

        assert said(wrong) == "This is not your password now."
        assert is_in(client, owner.cookies)
        assert not is_in(client, other)
        assert post_sign_in(client, owner.email, "quite another one").headers["location"] == "/"


class TestLinks:
    FORM = {"organization": "Acme", "name": "Ada", "email": "Ada@Acme.example", "password": PASSWORD}

    def test_the_first_makes_the_owner_once(self, client: TestClient) -> None:
        token = links.set_up_link()
        assert client.get(f"/api/links/{token}").headers["location"] == "/set-up"
        link = dict(client.cookies)

        client.post("/api/set-up", data=self.FORM)

        me = client.get("/api/session").json()
        assert me == {"name": "Ada", "email": "ada@acme.example", "organization": "Acme", "role": "owner"}
        assert links.has_owner()
        client.cookies.update(link)
        assert "has been used" in said(client.post("/api/set-up", data=self.FORM))
        with reading() as session:
            assert len(session.exec(select(Organization)).all()) == 1

    def test_the_newest_set_up_link_alone_works(self, client: TestClient) -> None:
        old, new = links.set_up_link(), links.set_up_link()

        assert client.get(f"/api/links/{old}").headers["location"] == "/sign-in"
        assert client.get(f"/api/links/{new}").headers["location"] == "/set-up"

    @pytest.mark.parametrize("password", ["short", "password", "aaaaaaaaaa", "ada@acme.example", "x" * 257])
    def test_a_weak_password_is_refused_and_nothing_else_is_lost(self, client: TestClient, password: str) -> None:
        client.get(f"/api/links/{links.set_up_link()}")

        response = client.post("/api/set-up", data=self.FORM | {"password": password})

        assert "assword" in said(response)
        assert client.post("/api/set-up", data=self.FORM).headers["location"] == "/"

    def test_without_a_link_nobody_sets_up(self, client: TestClient) -> None:
        assert "has been used or is too old" in said(client.post("/api/set-up", data=self.FORM))
        with reading() as session:
            assert not session.exec(select(User)).all()

    def test_to_sign_in_works_once(self, client: TestClient, owner: Person) -> None:
        token = self.make(owner, LinkKind.SIGN_IN)

        first = client.get(f"/api/links/{token}")
        client.cookies.clear()
        second = client.get(f"/api/links/{token}")

        assert first.headers["location"] == "/"
        assert "has been used" in said(second)
        assert not is_in(client)

    def test_grows_old(self, client: TestClient, owner: Person, clock: Clock) -> None:
        token = self.make(owner, LinkKind.SIGN_IN)
        clock.advance(minutes=16)

        assert "too old" in said(client.get(f"/api/links/{token}"))

    def test_for_a_password_ends_every_session(self, client: TestClient, owner: Person) -> None:
        client.get(f"/api/links/{self.make(owner, LinkKind.PASSWORD)}")

        client.post("/api/new-password", data={"password": "brand new words"})

        assert is_in(client)
        assert not is_in(client, owner.cookies)

    def test_of_one_kind_opens_no_other_door(self, client: TestClient, owner: Person) -> None:
        client.get(f"/api/links/{self.make(owner, LinkKind.PASSWORD)}")

        assert "has been used" in said(client.post("/api/set-up", data=self.FORM))

    def test_is_kept_only_as_a_hash(self, client: TestClient, owner: Person) -> None:
        token = self.make(owner, LinkKind.SIGN_IN)

        with reading() as session:
            assert [row.token_sha256 for row in session.exec(select(OneTimeLink))] == [sessions.digest(token)]

    def make(self, person: Person, kind: LinkKind) -> str:
        with unit_of_work() as session:
            return links.link_for(session, operator(), person.email, kind)


def test_a_form_that_is_too_large_is_not_read(client: TestClient) -> None:
    response = client.post("/api/sign-in", data={"email": "a" * 20_000, "password": "b"})

    assert response.status_code == 422


def test_a_file_is_no_form(client: TestClient) -> None:
    response = client.post("/api/sign-in", data={"password": "b"}, files={"email": b"x"})

    assert response.status_code == 422
