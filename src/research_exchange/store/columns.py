"""A column type of our own: moments that come back as they went in, whichever database keeps them."""

from datetime import UTC, datetime

from sqlalchemy import DateTime, Dialect, TypeDecorator


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
