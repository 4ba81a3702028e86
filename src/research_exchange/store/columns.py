"""Column types of our own: moments and texts that come back alike, whichever database keeps them."""

from datetime import UTC, datetime

from sqlalchemy import DateTime, Dialect, Text, TypeDecorator


class Instant(TypeDecorator[datetime]):
    """An aware moment, kept and given back in UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a stored time must say its zone, found {value!r}")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Words(TypeDecorator[str]):
    """A text. What no database can keep of a JSON string, NUL and lone surrogates, is kept as a replacement mark."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return (
            None
            if value is None
            else value.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
        )
