"""Params of the public stages, made from their declared settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

from pyspark.ml.param import Param, Params, TypeConverters, shared

from spark_auc.pipeline.has_settings import HasSettings
from spark_auc.pipeline.settings import documented

# The types of Spark's Params.
_KINDS: Mapping[Any, type] = {
    TypeConverters.toBoolean: bool,
    TypeConverters.toFloat: float,
    TypeConverters.toInt: int,
    TypeConverters.toString: str,
}


class Configured(Params, HasSettings):
    """A stage with declared settings: ``class Toy(Configured, settings=ToySettings)``.

    The class gets a Param of each setting, its default, ``getX`` and ``setX``, and, where its
    constructor takes ``**params``, their signature and the section Parameters of its docstring.
    Members that the class or its bases define are kept. It counts as a subclass of Spark's mixin of
    a Param of the same name and type, such as ``HasRegParam``.

    Class arguments are those of `HasSettings`.
    """

    if TYPE_CHECKING:
        # Params and their setters are made at run time.
        def __getattr__(self, name: str) -> Any: ...

    def __init_subclass__(
        cls,
        settings: type | None = None,
        absent: Mapping[str, str] | None = None,
        **others: Any,
    ) -> None:
        super().__init_subclass__(settings, absent, **others)
        if settings is None:
            return
        for name, setting in cls.SETTINGS.items():
            doc = setting.setting.doc
            setattr(cls, name, Param(Params._dummy(), name, doc, setting.convert))
            capital = name[0].upper() + name[1:]
            for prefix, made in (("get", _getter), ("set", _setter)):
                if not hasattr(cls, prefix + capital):
                    setattr(cls, prefix + capital, made(cls, prefix + capital, name))
            mixin = getattr(shared, f"Has{capital}", None)
            if mixin and _KINDS.get(getattr(mixin, name).typeConverter) is setting.kind:
                mixin.register(cls)
        constructor = vars(cls).get("__init__")
        if constructor is not None and _takes_params(constructor):
            own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
            parameters = [own, *(setting.parameter() for setting in cls.SETTINGS.values())]
            constructor.__signature__ = inspect.Signature(parameters, return_annotation=None)
            cls.__doc__ = documented(cls.__doc__ or "", cls.SETTINGS.values())

    def __init__(self, **params: Any) -> None:
        super().__init__()
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
            self.known(name)
        for name, value in params.items():
            if value is None:
                self.clear(self.getParam(name))
            else:
                self._set(**{name: value})
        return self

    def values(self) -> Any:
        """Values of all Params by name, a ``dict`` as the class's settings declare it.

        A Param with neither a value nor a default is None.
        """
        return {
            name: self.getOrDefault(name) if self.isDefined(name) else None
            for name in self.SETTINGS
        }

    def with_values(self, **values: Any) -> Self:
        """See `HasSettings.with_values`."""
        return self.copy().setParams(**values)


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
