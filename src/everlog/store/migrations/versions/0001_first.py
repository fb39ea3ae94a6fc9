"""The first schema."""

import sqlalchemy as sa
from alembic import context, op

from everlog.store.migrations import make_table

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make every table of the first schema."""
    make_table(
        "blob",
        sa.Column("tenant", sa.String(64)),
        sa.Column("thread", sa.String(32)),
        sa.Column("name", sa.String(32)),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("tenant", "thread", "name", name="pk_blob"),
    )
    make_table(
        "blob_use",
        sa.Column("tenant", sa.String(64)),
        sa.Column("thread", sa.String(32)),
        sa.Column("name", sa.String(32)),
        sa.Column("i", sa.BigInteger(), autoincrement=False),
        sa.PrimaryKeyConstraint("tenant", "thread", "name", "i", name="pk_blob_use"),
    )
    make_table(
        "dig",
        sa.Column("tenant", sa.String(64)),
        sa.Column("thread", sa.String(32)),
        sa.Column("nid", sa.BigInteger(), autoincrement=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "thread", "nid", name="pk_dig"),
    )
    make_table(
        "due",
        sa.Column("tenant", sa.String(64)),
        sa.Column("memory", sa.String(16)),
        sa.Column("subject", sa.String(200)),
        sa.Column("thread", sa.String(32)),
        sa.Column("bucket", sa.SmallInteger(), nullable=False),
        sa.Column("live", sa.SmallInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger()),
        sa.Column("upto", sa.BigInteger(), nullable=False),
        sa.Column("marked", sa.BigInteger(), nullable=False),
        sa.Column("lease_owner", sa.String(32)),
        sa.Column("lease_until", sa.BigInteger()),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("error_code", sa.String(64)),
        sa.PrimaryKeyConstraint("tenant", "memory", "subject", name="pk_due"),
        indexes=(("tenant", "live", "due_at"), ("tenant", "thread")),
        everyone=True,
    )
    make_table(
        "entry",
        sa.Column("tenant", sa.String(64)),
        sa.Column("thread", sa.String(32)),
        sa.Column("i", sa.BigInteger(), autoincrement=False),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("fp", sa.LargeBinary(16)),
        sa.Column("chain", sa.LargeBinary(16)),
        sa.Column("call", sa.LargeBinary(16)),
        sa.Column("hash", sa.LargeBinary(16)),
        sa.Column("request", sa.String(200)),
        sa.Column("model", sa.String(200)),
        sa.Column("body", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("tenant", "thread", "i", name="pk_entry"),
        indexes=(("tenant", "chain"),),
        large=True,
    )
    make_table(
        "instruction",
        sa.Column("tenant", sa.String(64)),
        sa.Column("thread", sa.String(32)),
        sa.Column("fp", sa.String(32)),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("tenant", "thread", "fp", name="pk_instruction"),
    )
    make_table(
        "node",
        sa.Column("tenant", sa.String(64)),
        sa.Column("thread", sa.String(32)),
        sa.Column("nid", sa.BigInteger(), autoincrement=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("prompt", sa.String(64)),
        sa.Column("model", sa.String(200)),
        sa.Column("inputs", sa.LargeBinary(16), nullable=False),
        sa.Column("fallback", sa.SmallInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "thread", "nid", name="pk_node"),
    )
    make_table(
        "receipt",
        sa.Column("tenant", sa.String(64)),
        sa.Column("id", sa.String(32)),
        sa.Column("target", sa.String(8), nullable=False),
        sa.Column("state", sa.String(8), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("wrapper", sa.String(32), nullable=False),
        sa.Column("report", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "id", name="pk_receipt"),
        everyone=True,
    )
    make_table(
        "request",
        sa.Column("tenant", sa.String(64)),
        sa.Column("thread", sa.String(32)),
        sa.Column("id", sa.String(32)),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("consumer", sa.String(200), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("model", sa.String(200)),
        sa.Column("tokens_in", sa.BigInteger()),
        sa.Column("tokens_out", sa.BigInteger()),
        sa.Column("tokens_read", sa.BigInteger()),
        sa.Column("tokens_written", sa.BigInteger()),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "thread", "id", name="pk_request"),
    )
    make_table(
        "request_item",
        sa.Column("tenant", sa.String(64)),
        sa.Column("thread", sa.String(32)),
        sa.Column("request", sa.String(32)),
        sa.Column("n", sa.Integer(), autoincrement=False),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("ref", sa.String(200), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("reason", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "thread", "request", "n", name="pk_request_item"),
    )
    make_table(
        "response",
        sa.Column("tenant", sa.String(64)),
        sa.Column("principal", sa.String(200)),
        sa.Column("id", sa.String(200)),
        sa.Column("thread", sa.String(32), nullable=False),
        sa.Column("i", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "principal", "id", name="pk_response"),
        indexes=(("tenant", "thread"),),
    )
    make_table(
        "saved_view",
        sa.Column("tenant", sa.String(64)),
        sa.Column("thread", sa.String(32)),
        sa.Column("budget", sa.BigInteger(), autoincrement=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("owed", sa.SmallInteger(), nullable=False),
        sa.Column("runs", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "thread", "budget", name="pk_saved_view"),
    )
    make_table(
        "segment",
        sa.Column("tenant", sa.String(64)),
        sa.Column("thread", sa.String(32)),
        sa.Column("n", sa.Integer(), autoincrement=False),
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("upto", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "thread", "n", name="pk_segment"),
        indexes=(("tenant", "owner"),),
    )
    make_table(
        "session",
        sa.Column("tenant", sa.String(64)),
        sa.Column("principal", sa.String(200)),
        sa.Column("id", sa.String(200)),
        sa.Column("thread", sa.String(32)),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "principal", "id", "thread", name="pk_session"),
        indexes=(("tenant", "thread"),),
    )
    make_table(
        "summary",
        sa.Column("tenant", sa.String(64)),
        sa.Column("thread", sa.String(32)),
        sa.Column("upto", sa.BigInteger(), autoincrement=False),
        sa.Column("prev", sa.BigInteger(), nullable=False),
        sa.Column("covered", sa.LargeBinary(16), nullable=False),
        sa.Column("said", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("prompt", sa.String(64), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("inputs", sa.LargeBinary(16), nullable=False),
        sa.Column("fallback", sa.SmallInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "thread", "upto", name="pk_summary"),
    )
    make_table(
        "tenant",
        sa.Column("tenant", sa.String(64)),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", name="pk_tenant"),
        everyone=True,
    )
    make_table(
        "thread",
        sa.Column("tenant", sa.String(64)),
        sa.Column("thread", sa.String(32)),
        sa.Column("key", sa.String(200)),
        sa.Column("title", sa.LargeBinary()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("next", sa.BigInteger(), nullable=False),
        sa.Column("turns", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("erased_at", sa.BigInteger()),
        sa.Column("parent", sa.String(32)),
        sa.Column("head", sa.LargeBinary(16)),
        sa.PrimaryKeyConstraint("tenant", "thread", name="pk_thread"),
        sa.UniqueConstraint("tenant", "key", name="uq_thread_tenant_key"),
    )
    make_table(
        "try",
        sa.Column("tenant", sa.String(64)),
        sa.Column("thread", sa.String(32)),
        sa.Column("nid", sa.BigInteger(), autoincrement=False),
        sa.Column("inputs", sa.LargeBinary(16), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "thread", "nid", name="pk_try"),
    )
    make_table(
        "turn",
        sa.Column("tenant", sa.String(64)),
        sa.Column("thread", sa.String(32)),
        sa.Column("n", sa.Integer(), autoincrement=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.SmallInteger(), nullable=False),
        sa.Column("learn", sa.SmallInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("client_key", sa.String(200)),
        sa.Column("content", sa.LargeBinary(16)),
        sa.Column("session", sa.String(200)),
        sa.Column("user", sa.String(200)),
        sa.Column("project", sa.String(200)),
        sa.Column("scope", sa.String(200)),
        sa.Column("model", sa.String(200)),
        sa.Column("timezone", sa.String(64)),
        sa.Column("body", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("tenant", "thread", "n", name="pk_turn"),
        sa.UniqueConstraint("tenant", "thread", "client_key", name="uq_turn_tenant_thread_client_key"),
        indexes=(("tenant", "user"),),
    )
    make_table(
        "wrapped_key",
        sa.Column("tenant", sa.String(64)),
        sa.Column("owner", sa.String(32)),
        sa.Column("version", sa.Integer(), autoincrement=False),
        sa.Column("wrapper", sa.String(32), nullable=False),
        sa.Column("wrapped", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "owner", "version", name="pk_wrapped_key"),
        everyone=True,
    )
    make_table(
        "zoom_event",
        sa.Column("tenant", sa.String(64)),
        sa.Column("thread", sa.String(32)),
        sa.Column("id", sa.String(32)),
        sa.Column("n", sa.Integer(), autoincrement=False),
        sa.Column("leaf", sa.BigInteger()),
        sa.Column("steps", sa.Integer()),
        sa.Column("turn", sa.Integer()),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "thread", "id", "n", name="pk_zoom_event"),
    )
    state = op.create_table(
        "store_state",
        sa.Column("name", sa.String(32)),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_store_state"),
    )
    encryption = "complete" if context.config.attributes.get("encrypted") else "off"
    op.bulk_insert(state, [{"name": "encryption", "value": encryption}])
