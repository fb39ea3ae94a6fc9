from everlog.store import Store
from everlog.store import rows

def test_a_tenant_has_a_secret(store: Store):
    assert store.write("ada", lambda unit: unit.secret(), name="x") == store.read("ada", lambda unit: unit.secret())
