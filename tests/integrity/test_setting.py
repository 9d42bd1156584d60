"""A setting is a value: one choice of an answer cannot change what another is read with."""

from __future__ import annotations

import dataclasses

import pytest

from gateway.integrity.setting import Setting
from tests.integrity.settings import setting


def test_a_setting_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setting().raw = True  # type: ignore[misc]


def test_a_setting_has_no_defaults_that_a_caller_could_forget() -> None:
    assert [field.name for field in dataclasses.fields(Setting) if field.default is not dataclasses.MISSING] == []
