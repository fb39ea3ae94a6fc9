"""The server the tests run on is the one a user would have: real, durable, with roles that bind."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psycopg
import pytest

from tests.postgres import PostgresDatabase, PostgresServer, running_server


def test_each_test_gets_an_empty_database_of_its_own(postgres_server: PostgresServer):
    first, second = postgres_server.create(), postgres_server.create()
    with psycopg.connect(first.url) as connection:
        connection.execute("CREATE TABLE kept (x int)")
    with psycopg.connect(second.url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    postgres_server.drop(first)
    postgres_server.drop(second)
    assert tables == []


def test_it_is_durable_and_both_sockets_lead_to_it(postgres_database: PostgresDatabase):
    for url in (postgres_database.url, postgres_database.socket_url):
        with psycopg.connect(url) as connection:
            assert connection.execute("SHOW fsync").fetchone() == ("on",)
            assert connection.execute("SELECT current_database()").fetchone() == (postgres_database.name,)


def test_forced_row_level_security_binds_the_role_that_owns_the_tables(postgres_database: PostgresDatabase):
    with psycopg.connect(postgres_database.url) as connection:
        connection.execute("CREATE TABLE secret (tenant text)")
        connection.execute("INSERT INTO secret VALUES ('a'), ('b')")
        connection.execute("ALTER TABLE secret ENABLE ROW LEVEL SECURITY")
        connection.execute("ALTER TABLE secret FORCE ROW LEVEL SECURITY")
        connection.execute("CREATE POLICY wall ON secret USING (tenant = 'a')")
        assert connection.execute("SELECT tenant FROM secret").fetchall() == [("a",)]
    with psycopg.connect(postgres_database.superuser_url) as connection:
        assert connection.execute("SELECT count(*) FROM secret").fetchone() == (2,)


def test_pgvector_is_there_for_a_superuser_to_turn_on(postgres_database: PostgresDatabase):
    with psycopg.connect(postgres_database.superuser_url) as connection:
        connection.execute("CREATE EXTENSION vector")
    with psycopg.connect(postgres_database.url) as connection:
        assert connection.execute("SELECT '[1,2]'::vector <-> '[1,4]'::vector").fetchone() == (2.0,)


def test_a_wrong_password_is_refused(postgres_server: PostgresServer):
    url = postgres_server.url().replace(postgres_server.password, "wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url)


def test_nothing_is_left_when_a_server_ends():
    with running_server() as server:
        assert server.folder.exists()
    assert not server.folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
def test_the_server_ends_when_the_tests_are_killed():
    program = textwrap.dedent("""
        import os, signal
        from tests.postgres import running_server
        with running_server() as server:
            print(server.pid, server.folder, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    """)
    root = Path(__file__).parents[1]
    finished = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False)
    pid, folder = finished.stdout.split(maxsplit=1)
    deadline = time.monotonic() + 20
    while (Path(folder.strip()) / "data" / "postmaster.pid").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    try:
        assert not (Path(folder.strip()) / "data" / "postmaster.pid").exists()
    finally:
        subprocess.run(["rm", "-rf", folder.strip()], check=True)
    assert not Path(f"/proc/{pid}/exe").exists()
