"""Params of the public stages, made from their declared settings."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pyspark.ml.param import Param, Params

from spark_auc.errors import ConfigError
from spark_auc.spark.settings import Declared, declared, documented


class Configured(Params):
    """A stage with declared settings: ``class Toy(Configured, settings=ToySettings)``.

    The class gets a Param of each setting, its default, ``getX`` and ``setX``, and, where its
    constructor takes ``**params``, their signature and the section Parameters of its docstring.
    Members that the class or its bases define are kept, but for the getters of Spark's mixins,
    which fail where a Param has no value. Among the bases of a class it comes before Spark's
    mixins, so that its defaults prevail.

    Class arguments: ``settings``, a ``TypedDict`` of `spark_auc.spark.settings`; ``absent``, names
    of settings that similar classes have and this one does not, each with the reason.
    """

    SETTINGS: ClassVar[Mapping[str, Declared]] = {}
    ABSENT: ClassVar[Mapping[str, str]] = {}

    if TYPE_CHECKING:
        # Params and their setters are made at run time.
        def __getattr__(self, name: str) -> Any: ...

    def __init_subclass__(
        cls,
        settings: type | None = None,
        absent: Mapping[str, str] | None = None,
        **others: Any,
    ) -> None:
        super().__init_subclass__(**others)
        cls.ABSENT = {**cls.ABSENT, **(absent or {})}
        if settings is None:
            return
        cls.SETTINGS = {n: d for n, d in declared(settings).items() if n not in vars(cls)}
        for name, setting in cls.SETTINGS.items():
            doc = setting.setting.doc
            setattr(cls, name, Param(Params._dummy(), name, doc, setting.convert))
            capital = name[0].upper() + name[1:]
            for prefix, made in (("get", _getter), ("set", _setter)):
                if _is_spark_s(getattr(cls, prefix + capital, None)):
                    setattr(cls, prefix + capital, made(cls, prefix + capital, name))
        constructor = vars(cls).get("__init__")
        if constructor is not None and _takes_params(constructor):
            own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
            parameters = [own, *(setting.parameter() for setting in cls.SETTINGS.values())]
            constructor.__signature__ = inspect.Signature(parameters, return_annotation=None)
            cls.__doc__ = documented(cls.__doc__ or "", cls.SETTINGS.values())

    def __init__(self, **params: Any) -> None:
        # Spark's mixins have other defaults, of which that of HasSeed may be out of range.
        self._mixing = True
        super().__init__()
        self._mixing = False
        defaults = {name: setting.setting.default for name, setting in self.SETTINGS.items()}
        self._setDefault(**{name: value for name, value in defaults.items() if value is not None})
        self.setParams(**params)

    def setParams(self, **params: Any) -> Self:
        """Set any Params by name; None clears one, which then has its default or no value.

        Raises
        ------
        TypeError
            The class has no such Param, or the value is of another type.
        ConfigError
            A value is out of range.
        """
        for name in params:
            if name not in self.SETTINGS:
                raise TypeError(self._unknown(name))
        for name, value in params.items():
            if value is None:
                self.clear(self.getParam(name))
            else:
                self._set(**{name: value})
        return self

    def _setDefault(self, **defaults: Any) -> Self:
        if self._mixing:
            defaults = {n: value for n, value in defaults.items() if n not in self.SETTINGS}
        super()._setDefault(**defaults)
        return self

    def values(self) -> Any:
        """Values of all Params by name, a ``dict`` as the class's settings declare it.

        A Param with neither a value nor a default is None.
        """
        return {
            name: self.getOrDefault(name) if self.isDefined(name) else None
            for name in self.SETTINGS
        }

    def check(self) -> None:
        """`ConfigError` where Params contradict each other, or one that is set has no effect."""

    def refuse(self, mode: str, *names: str) -> None:
        """`ConfigError` if one of some Params without effect in a mode is not at its default.

        Parameters
        ----------
        mode
            The mode for the message, such as "parallelism 'distributed'".
        names
            The Params.
        """
        for name in names:
            if self.values()[name] != self.SETTINGS[name].setting.default:
                raise ConfigError(
                    f"found {name} {self.getOrDefault(name)!r} with {mode}, expected {name} not to "
                    f"be set, for it has no effect there; leave {name} out"
                )

    @classmethod
    def _unknown(cls, name: str) -> str:
        """The message for a setting that the class does not have."""
        if name in cls.ABSENT:
            return f"found {name} of {cls.__name__}, expected none: {cls.ABSENT[name]}"
        near = difflib.get_close_matches(name, cls.SETTINGS, 1)
        remedy = f"did you mean {near[0]!r}?" if near else "leave it out"
        return (
            f"found the unknown argument {name!r} of {cls.__name__}, expected some of "
            f"{', '.join(cls.SETTINGS)}; {remedy}"
        )


def _is_spark_s(member: Any) -> bool:
    """Whether a member is missing, or one of Spark's."""
    return member is None or member.__module__.startswith("pyspark.")


def _takes_params(constructor: Callable[..., None]) -> bool:
    parameters = inspect.signature(constructor).parameters.values()
    return any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)


def _getter(owner: type, method: str, name: str) -> Callable[[Any], Any]:
    def get(self: Configured) -> Any:
        return self.values()[name]

    return _named(get, owner, method, f"Value of {name}, None where it has none.")


def _setter(owner: type, method: str, name: str) -> Callable[[Any, Any], Any]:
    def set_value(self: Configured, value: Any) -> Any:
        return self.setParams(**{name: value})

    return _named(set_value, owner, method, f"Set {name}.")


def _named(made: Callable[..., Any], owner: type, method: str, doc: str) -> Callable[..., Any]:
    made.__name__, made.__qualname__ = method, f"{owner.__qualname__}.{method}"
    made.__module__, made.__doc__ = owner.__module__, doc
    return made
