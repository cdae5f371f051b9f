"""What the plugs share: a chat's two moments (recall before, learn after) and a bank's memories as named files."""

from memkit.errors import MissingExtra


def missing(plug: str, extra: str, error: ImportError) -> MissingExtra:
    """To be raised where the host of a plug is not installed."""
    return MissingExtra(f"{plug} needs the extra {extra}", why=str(error), fix=f'pip install "memkit[{extra}]"')
