import pytest

pytest.importorskip("deltalake", reason="the extra store is not installed")
