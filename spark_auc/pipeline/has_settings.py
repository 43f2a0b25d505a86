"""Classes with declared settings, whatever holds their values."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from spark_auc.errors import ConfigError
from spark_auc.pipeline.settings import Declared, declared


class HasSettings:
    """Declared settings and their values.

    Class arguments: ``settings``, a ``TypedDict`` of `spark_auc.pipeline.settings`; ``absent``,
    names of settings that similar classes have and this one does not, each with the reason;
    ``public``, the name in messages (default: that of the class).
    """

    SETTINGS: ClassVar[Mapping[str, Declared]] = {}
    ABSENT: ClassVar[Mapping[str, str]] = {}
    PUBLIC: ClassVar[str] = ""

    def __init_subclass__(
        cls,
        settings: type | None = None,
        absent: Mapping[str, str] | None = None,
        public: str | None = None,
        **others: Any,
    ) -> None:
        super().__init_subclass__(**others)
        cls.PUBLIC = public or cls.__name__
        cls.ABSENT = {**cls.ABSENT, **(absent or {})}
        if settings is not None:
            cls.SETTINGS = {n: d for n, d in declared(settings).items() if n not in vars(cls)}

    def values(self) -> Any:
        """Values of all settings by name, a ``dict`` as the class's settings declare it.

        A setting with neither a value nor a default is None.
        """
        raise NotImplementedError

    def isSet(self, param: Any) -> bool:
        """Whether a setting of this name has a value beside its default."""
        raise NotImplementedError

    def with_values(self, **values: Any) -> Self:
        """A copy with other values of some settings; None clears one."""
        raise NotImplementedError

    def check(self) -> None:
        """`ConfigError` where settings contradict each other, or one that is set has no effect."""

    def refuse(self, mode: str, *names: str) -> None:
        """`ConfigError` if one of some settings without effect in a mode is not at its default.

        Parameters
        ----------
        mode
            The mode for the message, such as "parallelism 'distributed'".
        names
            The settings.
        """
        for name in names:
            if (value := self.values()[name]) != self.SETTINGS[name].setting.default:
                raise ConfigError(
                    f"found {name} {value!r} with {mode}, expected {name} not to "
                    f"be set, for it has no effect there; leave {name} out"
                )

    @classmethod
    def known(cls, name: str) -> Declared:
        """The declaration of a setting; `TypeError` if the class has none of the name."""
        if name in cls.SETTINGS:
            return cls.SETTINGS[name]
        if name in cls.ABSENT:
            raise TypeError(f"found {name} of {cls.PUBLIC}, expected none: {cls.ABSENT[name]}")
        near = difflib.get_close_matches(name, cls.SETTINGS, 1)
        remedy = f"did you mean {near[0]!r}?" if near else "leave it out"
        raise TypeError(
            f"found the unknown argument {name!r} of {cls.PUBLIC}, expected some of "
            f"{', '.join(cls.SETTINGS)}; {remedy}"
        )


class Settled(HasSettings):
    """Settings with plain values.

    Raises
    ------
    TypeError
        A setting is unknown, or its value is of another type.
    ConfigError
        A value is out of range.
    """

    def __init__(self, **values: Any) -> None:
        given = {name: value for name, value in values.items() if value is not None}
        self._given = {name: self.known(name).convert(value) for name, value in given.items()}

    def values(self) -> Any:
        """See `HasSettings.values`."""
        defaults = {name: declared.setting.default for name, declared in self.SETTINGS.items()}
        return defaults | self._given

    def isSet(self, param: Any) -> bool:
        """See `HasSettings.isSet`."""
        return param in self._given

    def with_values(self, **values: Any) -> Self:
        """See `HasSettings.with_values`."""
        return type(self)(**self._given | values)
