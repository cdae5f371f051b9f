"""Another backbone for each role: a small local manager, say, and a hosted model that answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memkit.errors import ModelError
from memkit.seams.backbone import Backbone, GenReply, GenRequest, Replies, style_of


class RoutedBackbone:
    """`routes`: role → backbone; `default` serves the roles that it does not name."""

    def __init__(self, routes: Mapping[str, Backbone], default: Backbone) -> None:
        self._routes, self._default = dict(routes), default

    @property
    def identity(self) -> str:
        named = [f"{role}={backbone.identity}" for role, backbone in sorted(self._routes.items())]
        return f"routed({', '.join([*named, f'*={self._default.identity}'])})"

    @property
    def style(self) -> str:
        return self.style_of("manager")

    @property
    def max_parallel(self) -> int:
        return max(backbone.max_parallel for backbone in self._all())

    def backbone_of(self, role: str) -> Backbone:
        return self._routes.get(role, self._default)

    def style_of(self, role: str) -> str:
        return style_of(self.backbone_of(role), role)

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        groups: dict[int, list[int]] = {}
        for index, request in enumerate(requests):
            groups.setdefault(id(self.backbone_of(request.prompt.role)), []).append(index)
        replies: dict[int, GenReply | ModelError] = {}
        for indices in groups.values():
            backbone = self.backbone_of(requests[indices[0]].prompt.role)
            replies |= zip(indices, backbone.generate([requests[index] for index in indices]), strict=True)
        return [replies[index] for index in range(len(requests))]

    def close(self) -> None:
        for backbone in self._all():
            backbone.close()

    def _all(self) -> list[Backbone]:
        return list({id(one): one for one in [*self._routes.values(), self._default]}.values())
