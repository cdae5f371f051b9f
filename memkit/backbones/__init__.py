"""How text is generated. `make_backbone` turns what users write as `model=` into a `Backbone`; each kind is imported
when it is asked for."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_args

from memkit.backbones.offered import is_offered, offered_class, offered_path
from memkit.errors import InvalidConfig, MissingExtra
from memkit.roles.base import RoleName
from memkit.seams.backbone import Backbone

__all__ = ["PROVIDERS", "check_model", "make_backbone", "name_of"]

_ROLES = (*get_args(RoleName), "default")
_LOCAL_PACKAGES = ("torch", "transformers", "peft", "safetensors")
PROVIDERS = {
    "openai": "memkit.backbones.openai:OpenAIBackbone",
    "anthropic": "memkit.backbones.anthropic:AnthropicBackbone",
    "gemini": "memkit.backbones.gemini:GeminiBackbone",
    "ollama": "memkit.backbones.ollama:OllamaBackbone",
    "litellm": "memkit.backbones.litellm:LiteLLMBackbone",
}
"""What stands before the colon of a hosted model. An installed package may offer more of them: an entry point
`memkit.models` of such a name, with a class that takes (model, *, base_url=, api_key=, …)."""
_SPECS = (
    'None (rules), "small", "openai:NAME", "anthropic:NAME", "gemini:NAME", "ollama:NAME", "litellm:NAME", '
    '"hf:PATH_OR_ID", a function of messages, a Backbone, or roles → these'
)


def make_backbone(spec: Any, *, base_url: str | None = None, api_key: Any = None, **options: Any) -> Backbone:
    """`base_url` and `api_key` go with a hosted model; `options` to the constructor of the kind that is asked for.
    In a mapping of roles, roles without an entry use "default", or the rules."""
    if isinstance(spec, Mapping):
        return _routed(cast(Mapping[str, Any], spec), base_url=base_url, api_key=api_key, options=options)
    if isinstance(spec, str) and _hosted(spec):
        name = spec.partition(":")[2]
        return _built(_class_of(spec), name, options | {"base_url": base_url, "api_key": api_key}, spec)
    if base_url is not None or api_key is not None:
        raise InvalidConfig(
            "base_url= and api_key= need a hosted model",
            why=f"the model is {_kind(spec)}",
            fix='pass model="openai:NAME", or another provider\'s',
        )
    if isinstance(spec, str) and _local(spec):
        path = spec.removeprefix("hf:") if spec.startswith("hf:") else str(offered_path(spec))
        return _built(_class_of(spec), path, options, spec)
    if spec == "small":
        return _built(_class_of(spec), None, options, spec)
    if spec is None:
        from memkit.backbones.rules import RuleBackbone

        return _built(RuleBackbone, None, options, "the rules")
    if isinstance(spec, Backbone):
        if options:
            raise InvalidConfig(f"{next(iter(options))}= has no effect on a backbone that exists", fix="set it there")
        return spec
    if callable(spec):
        from memkit.backbones.function import CallableBackbone

        return _built(CallableBackbone, spec, options, "a function")
    raise _unknown(spec)


def name_of(spec: Any) -> str:
    """A model in a few words, for whoever asks who decides. Nothing is loaded."""
    if isinstance(spec, Mapping):
        roles = cast(Mapping[str, Any], spec)
        return ", ".join(f"{role}: {name_of(one)}" for role, one in roles.items())
    if spec is None:
        return "the rules"
    if isinstance(spec, str):
        return spec
    return (
        spec.identity
        if isinstance(spec, Backbone)
        else f"callable:{getattr(spec, '__qualname__', type(spec).__name__)}"
    )


def check_model(spec: Any, options: Mapping[str, Any]) -> None:
    """Refuse what can be known to be wrong before anything is written, although the backbone is made when it is first
    needed: a model of no kind, a missing key, package or folder, and an option that nothing reads (a misspelt argument
    of `Memory` ends up here). Nothing is loaded, and nothing asked over the network."""
    if isinstance(spec, Mapping):
        roles = cast(Mapping[str, Any], spec)
        _check_roles(roles)
        for one in roles.values():
            if isinstance(one, str):
                check_model(one, options if _hosted(one) else _without_access(options))
    elif not isinstance(spec, str):
        if spec is not None or options:
            make_backbone(spec, **options)
    elif _hosted(spec):
        _check_names(spec, options)
        make_backbone(spec, **options).close()
    elif _local(spec):
        _check_local(spec, options)
    elif spec == "small":
        make_backbone(spec, **options).close()
    else:
        raise _unknown(spec)


def _check_local(spec: str, options: Mapping[str, Any]) -> None:
    if options:
        _check_names(spec, _without_access(options))
    if not spec.startswith("hf:"):
        offered_path(spec)
        return
    name = spec.removeprefix("hf:")
    if (not name or name[0] in "./~") and not Path(name or "/nowhere").expanduser().is_dir():
        raise InvalidConfig(
            f"no checkpoint at {name!r}",
            why="there is no such folder",
            fix="give a folder with config.json and *.safetensors, or an id such as Qwen/Qwen2.5-0.5B-Instruct",
        )
    missing = next((one for one in _LOCAL_PACKAGES if importlib.util.find_spec(one) is None), None)
    if missing is not None:
        raise MissingExtra(
            "cannot run a model in this process",
            why=f"the package {missing} is not installed",
            fix='pip install "memkit[local]"',
        )


def _check_names(spec: str, options: Mapping[str, Any]) -> None:
    known = inspect.signature(_class_of(spec)).parameters
    for name in options:
        if name not in known:
            raise _no_option(name, spec)


def _check_roles(spec: Mapping[str, Any]) -> None:
    unknown = [role for role in spec if role not in _ROLES]
    if unknown:
        raise InvalidConfig(f"role {unknown[0]!r} is unknown", why=f"roles are {', '.join(_ROLES)}", fix="correct it")


def _unknown(spec: Any) -> InvalidConfig:
    named = isinstance(spec, str) and spec.strip() and len(spec) < 100
    fix = f'pass model="openai:{spec}" for a hosted model, or "hf:{spec}" for weights of your own' if named else ""
    return InvalidConfig(
        f"model {_kind(spec)} is unknown", why=f"a model is {_SPECS}", fix=fix or "pass one of these as model="
    )


def _routed(spec: Mapping[str, Any], *, base_url: str | None, api_key: Any, options: Mapping[str, Any]) -> Backbone:
    from memkit.backbones.routed import RoutedBackbone

    _check_roles(spec)
    hosts = {one.partition(":")[0] for one in spec.values() if isinstance(one, str) and _hosted(one)}
    if len(hosts) > 1 and (base_url is not None or api_key is not None):
        raise InvalidConfig(
            f"base_url= and api_key= cannot go to {' and '.join(sorted(hosts))} alike",
            why="a key of one provider is not shown to another",
            fix="set the keys in the environment, or pass backbones made with make_backbone()",
        )
    made: dict[Any, Backbone] = {}

    def made_once(one: Any) -> Backbone:
        # two roles on one checkpoint share its weights
        key = one if isinstance(one, str) else id(one)
        if key not in made:
            hosted = isinstance(one, str) and _hosted(one)
            access = {"base_url": base_url, "api_key": api_key} if hosted else {}
            own = isinstance(one, Backbone) or one is None
            made[key] = make_backbone(one, **access, **({} if own else options))
        return made[key]

    default = made_once(spec.get("default"))
    return RoutedBackbone({role: made_once(one) for role, one in spec.items() if role != "default"}, default)


def _built(make: Any, first: Any, options: Mapping[str, Any], spec: str) -> Any:
    try:
        return make(first, **options) if first is not None else make(**options)
    except TypeError as error:
        if "unexpected keyword argument" in str(error):
            name = str(error).rsplit("argument", 1)[-1].strip().strip("'")
        elif "takes no arguments" in str(error) and options:
            name = next(iter(options))
        else:
            raise
        raise _no_option(name, spec) from None


def _no_option(name: str, spec: str) -> InvalidConfig:
    return InvalidConfig(
        f"{name}= is no option of {spec}",
        why="neither Memory nor the model reads it",
        fix="drop it, or correct its spelling",
    )


def _class_of(spec: str) -> Any:
    if _hosted(spec):
        provider = spec.partition(":")[0]
        module, _, name = PROVIDERS.get(provider, "").partition(":")
        return getattr(importlib.import_module(module), name) if module else offered_class(provider)
    if spec == "small":
        from memkit.backbones.small import SmallBackbone

        return SmallBackbone
    from memkit.backbones.hf import HFBackbone

    return HFBackbone


def _hosted(spec: str) -> bool:
    provider, colon, _ = spec.partition(":")
    return bool(colon) and provider != "hf" and (provider in PROVIDERS or is_offered(provider))


def _local(spec: str) -> bool:
    return spec.startswith("hf:") or is_offered(spec)


def _without_access(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in ("base_url", "api_key")}


def _kind(spec: Any) -> str:
    return repr(spec) if isinstance(spec, str) and len(spec) < 100 else type(spec).__name__
